"""HTTP/1.1 by hand over one kept connection: any bytes may be sent, and it may be cut anywhere."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class WireAnswer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpWire:
    """A connection to a port of the loopback, opened again where the server has closed it."""

    def __init__(self, port: int, *headers: str) -> None:
        """`headers` go with every request, each as `Name: value`."""
        self._port = port
        self._headers = "".join(f"{header}\r\n" for header in headers)
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    def request_bytes(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A request as it goes over the wire."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: node\r\n{self._headers}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body

    async def call(self, method: str, path: str, body: bytes = b"") -> WireAnswer:
        """Sends a request and reads the whole answer."""
        await self.send(self.request_bytes(method, path, body))
        answer = await self.read_head()
        if method == "HEAD":
            body = b""
        elif answer.headers.get("transfer-encoding") == "chunked":
            body = b""
            while piece := await self.read_chunk():
                body += piece
        else:
            body = await self._reader.readexactly(int(answer.headers.get("content-length", "0")))
        if answer.headers.get("connection") == "close":
            await self.close()
        return WireAnswer(answer.status, answer.headers, body)

    async def send(self, data: bytes) -> None:
        """Sends bytes, over a new connection where there is none."""
        if self._writer is None or self._writer.is_closing() or self._reader.at_eof():
            await self.close()
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(data)
        await self._writer.drain()

    async def read_head(self) -> WireAnswer:
        """Reads status and headers of an answer; its body is empty."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head[:-4].split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        headers = {name.lower(): value.strip() for name, value in pairs}
        return WireAnswer(int(status.split()[1]), headers, b"")

    async def read_chunk(self) -> bytes:
        """Reads one chunk of a body, empty at its end."""
        size = int(await self._reader.readline(), 16)
        return (await self._reader.readexactly(size + 2))[:-2]

    def reset(self) -> None:
        """Drops the connection with a reset, as a machine that loses power does."""
        if self._writer is None:
            return
        taken: socket.socket = self._writer.get_extra_info("socket")
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        self._writer = None

    async def close(self) -> None:
        """Ends the connection."""
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):  # the server was first
                await self._writer.wait_closed()
            self._writer = None
