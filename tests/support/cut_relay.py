"""Forwards connections to a unix socket and can cut them all at once, whatever they carry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path


class CutRelay:
    """Listens on a socket of its own; both ends see a cut as the other's death."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._transports: list[asyncio.WriteTransport] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cut = False

    def cut(self) -> None:
        """Cuts all connections there are, and takes no more."""
        self._is_cut = True
        for transport in self._transports:
            transport.abort()
        self._transports.clear()

    @asynccontextmanager
    async def serving(self, path: Path) -> AsyncIterator[None]:
        """Listens."""
        async with await asyncio.start_unix_server(self._serve, path):
            try:
                yield
            finally:
                self.cut()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_unix_connection(self._upstream)
        self._transports += [writer.transport, up_writer.transport]
        for source, target in ((reader, up_writer), (up_reader, writer)):
            task = asyncio.create_task(_pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
