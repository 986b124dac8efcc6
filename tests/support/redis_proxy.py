"""A Redis that answers late, in part, or nonsense: a proxy before a real one."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from tests.support.redis_server import STORE_USER, RedisServer


class RedisProxy:
    """Passes bytes on until told otherwise, which holds for the connections there are, too."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._socket = server.socket.with_name("proxy.sock")
        self.password_file: Path = server.password_file
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._may_answer = asyncio.Event()
        self._may_answer.set()
        self.delay_s = 0.0
        """Before every piece of an answer."""
        self.answer_bytes: int | None = None
        """A connection is cut after so many bytes of answers; None: never."""
        self.nonsense: bytes | None = None
        """Sent in place of every answer once a connection is in use."""
        self.num_spoiled = 0
        """Connections cut, answers replaced."""

    @property
    def url(self) -> str:
        """What the store is given."""
        return f"unix://{STORE_USER}@{self._socket}"

    async def start(self) -> None:
        """Listens."""
        self._listener = await asyncio.start_unix_server(self._serve, str(self._socket))

    async def close(self) -> None:
        """Ends every connection."""
        assert self._listener is not None
        self._listener.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.wait_closed()

    def hold(self) -> None:
        """Answers nothing more, and closes nothing."""
        self._may_answer.clear()

    def heal(self) -> None:
        """Passes everything on again."""
        self.delay_s, self.answer_bytes, self.nonsense = 0.0, None, None
        self._may_answer.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError):
                to_redis = await asyncio.open_unix_connection(str(self._server.socket))
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._pass(reader, to_redis[1]))
                        group.create_task(self._answer(to_redis[0], writer))
                except* (_EndError, OSError):
                    pass
                finally:
                    to_redis[1].close()
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        raise _EndError

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent_bytes = 0
        while data := await reader.read(65536):
            await self._may_answer.wait()
            await asyncio.sleep(self.delay_s)
            if self.nonsense is not None:
                data = self.nonsense
                self.num_spoiled += 1
            limit = self.answer_bytes
            is_cut = limit is not None and sent_bytes + len(data) > limit
            if is_cut:
                data = data[: max(0, (limit or 0) - sent_bytes)]
            writer.write(data)
            await writer.drain()
            sent_bytes += len(data)
            if is_cut:
                self.num_spoiled += 1
                break
        raise _EndError


class _EndError(Exception):
    """One side closed the connection."""
