"""Files that are read by calls that block: directories, and whatever fsspec reaches."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from services.adapter_store.remotes.failures import (
    FailureKind,
    RemoteFailure,
    unreachable,
    wrong_size,
)
from services.adapter_store.remotes.source import ByteStream

CHUNK_BYTES = 256 * 1024
T = TypeVar("T")


class OpenFile(Protocol):
    """What is used of a binary file."""

    def read(self, size: int, /) -> bytes: ...
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def close(self) -> None: ...


class BlockingTree:
    """A FileTree over one function that opens files by relative path.

    Each open file has a thread of its own, which nobody waits for: a medium or a mount that hangs
    holds that thread and nothing else. Calls on one file never overlap.
    """

    def __init__(self, open_file: Callable[[str], OpenFile], *, call_timeout_s: float) -> None:
        self._open_file = open_file
        self._call_timeout_s = call_timeout_s
        """For one call: opening, or reading `CHUNK_BYTES`."""

    async def read(self, path: str, max_bytes: int) -> bytes:
        """A whole small file. Raises RemoteFailure."""
        async with self._opened(path) as (file, call):
            data = await call(lambda: file.read(max_bytes + 1))
        if len(data) > max_bytes:
            raise RemoteFailure(
                FailureKind.UNUSABLE, "this is not an adapter package: its manifest is too large"
            )
        return data

    @asynccontextmanager
    async def open(
        self, path: str, size_bytes: int | None, offset: int, validator: str | None
    ) -> AsyncIterator[ByteStream]:
        """Opens a file, of a known size unless that is None. Raises RemoteFailure."""
        async with self._opened(path) as (file, call):
            if size_bytes not in (None, await call(lambda: file.seek(0, os.SEEK_END))):
                raise wrong_size()
            await call(lambda: file.seek(offset))
            yield ByteStream(offset, None, _chunks(file, call))

    async def aclose(self) -> None:
        """Nothing is kept open."""

    @asynccontextmanager
    async def _opened(self, path: str) -> AsyncIterator[tuple[OpenFile, _Call]]:
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="remote-file")
        loop = asyncio.get_running_loop()

        async def call(work: Callable[[], T]) -> T:
            try:
                async with asyncio.timeout(self._call_timeout_s):
                    return await loop.run_in_executor(thread, work)
            except TimeoutError:
                raise unreachable("its storage does not answer in time") from None
            except OSError as error:
                raise unreachable("its storage can not be read") from error

        opening = thread.submit(self._open_file, path)
        try:
            file = await call(opening.result)
            yield file, call
        finally:
            thread.submit(_close, opening.result)
            thread.shutdown(wait=False)


class _Call(Protocol):
    async def __call__(self, work: Callable[[], T], /) -> T: ...


def _close(opened: Callable[[], OpenFile]) -> None:
    opened().close()  # in the file's thread; what it raises is nobody's business any more


async def _chunks(file: OpenFile, call: _Call) -> AsyncGenerator[bytes]:
    while chunk := await call(lambda: file.read(CHUNK_BYTES)):
        yield chunk
