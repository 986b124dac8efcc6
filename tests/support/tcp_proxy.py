"""A small TCP proxy that cuts, stalls and slows what comes back from a real server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType

_PIECE_BYTES = 16 * 1024


class TcpProxy:
    """Forwards connections to a port; its behaviour may change at any time."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self.port = 0
        self.num_connections = 0
        self.bytes_back = 0
        """Sent to clients over all connections."""
        self.cut_after_bytes: int | None = None
        """Closes a connection after so many bytes back; counted for each connection."""
        self.stall_after_bytes: int | None = None
        """As `cut_after_bytes`, but the connection stays open and silent."""
        self.bytes_per_second: int | None = None
        self.answer: bytes | None = None
        """Answers every connection with this, without asking the server."""
        self.stalled = asyncio.Event()
        """Set when a connection has gone silent."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> TcpProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.num_connections += 1
        # A task of `start_server` that ends cancelled makes a traceback.
        with suppress(OSError, asyncio.CancelledError):
            try:
                await self._forward(reader, writer)
            finally:
                writer.transport.abort() if self.cut_after_bytes else writer.close()
                self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.answer is not None:
            await reader.read(_PIECE_BYTES)
            writer.write(self.answer)
            await writer.drain()
            return
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        upwards = asyncio.ensure_future(_pump(reader, up_writer))
        try:
            await self._back(up_reader, writer)
        finally:
            upwards.cancel()
            await asyncio.gather(upwards, return_exceptions=True)
            up_writer.close()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = 0
        while data := await reader.read(min(_PIECE_BYTES, self.bytes_per_second or _PIECE_BYTES)):
            end = self.cut_after_bytes or self.stall_after_bytes
            if end is not None:
                data = data[: max(0, end - sent)]
            writer.write(data)
            await writer.drain()
            sent += len(data)
            self.bytes_back += len(data)
            if end is not None and sent >= end:
                if self.cut_after_bytes is None:
                    self.stalled.set()
                    await asyncio.Event().wait()
                return
            if self.bytes_per_second is not None:
                await asyncio.sleep(len(data) / self.bytes_per_second)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PIECE_BYTES):
        writer.write(data)
        await writer.drain()
