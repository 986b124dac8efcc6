"""A small TCP proxy that cuts, stalls and slows what comes back from a real server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType

_PIECE_BYTES = 16 * 1024


class TcpProxy:
    """Forwards connections to a port; cuts and stalls hold for connections made from then on."""

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
        self.crawl_after_bytes: int | None = None
        """As `cut_after_bytes`, but the connection goes on with a byte a second."""
        self.late_by_s = 0.0
        """A connection that was taken stays without an answer for so long."""
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

    def drop_connections(self) -> None:
        """Cuts all connections there are."""
        for task in self._tasks:
            task.cancel()

    def heal(self, now: bool = True) -> None:
        """Lets connections to come alone, when `now` is true."""
        if now:
            self.cut_after_bytes = self.stall_after_bytes = self.crawl_after_bytes = None

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
                writer.close()
                self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.answer is not None:
            await reader.read(_PIECE_BYTES)
            writer.write(self.answer)
            await writer.drain()
            return
        await asyncio.sleep(self.late_by_s)
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
        # Of this connection, whatever is set for later ones.
        cut, stall, crawl = self.cut_after_bytes, self.stall_after_bytes, self.crawl_after_bytes
        ends = [end for end in (cut, stall, crawl) if end is not None]
        end = min(ends) if ends else None
        while data := await reader.read(_PIECE_BYTES):
            await self._send(writer, data if end is None else data[: end - sent])
            sent += len(data)
            if end is None or sent < end:
                continue
            if cut is not None:
                return
            self.stalled.set()
            if stall is not None:
                await asyncio.Event().wait()
            while byte := await reader.read(1):
                await self._send(writer, byte)
                await asyncio.sleep(1.0)

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await writer.drain()
        self.bytes_back += len(data)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PIECE_BYTES):
        writer.write(data)
        await writer.drain()
