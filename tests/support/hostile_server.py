"""A server that answers every request with whatever bytes a test wants, and remembers requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType


@dataclass(frozen=True)
class SeenRequest:
    """What arrived."""

    path: str
    headers: dict[str, str]


Answer = Callable[[SeenRequest], "bytes | AsyncIterator[bytes]"]


def reply(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole HTTP answer; underscores of header names become hyphens, None leaves one out."""
    named = {"content_length": str(len(body)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} X\r\n{lines}connection: close\r\n\r\n".encode() + body


class HostileServer:
    """One answer for each connection."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[SeenRequest] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> HostileServer:
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
        # A task of `start_server` that ends cancelled makes a traceback.
        with suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")
                pairs = (line.split(": ", 1) for line in lines if line)
                seen = SeenRequest(first.split(" ")[1], {k.lower(): v for k, v in pairs})
                self.requests.append(seen)
                answer = self.answer(seen)
                if isinstance(answer, bytes):
                    writer.write(answer)
                else:
                    async for piece in answer:
                        writer.write(piece)
                        await writer.drain()
                await writer.drain()
            finally:
                writer.close()
                self._tasks.discard(task)
