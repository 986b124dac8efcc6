"""Runs a module of ours in a process of its own, which answers once and ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from asyncio import StreamReader
from asyncio.subprocess import Process
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgelora.errors import ResourcePressureError
from services.adapter_store.threads import in_thread
from services.adapter_store.upload import storage_errors
from services.adapter_store.verification.child_protocol import LENGTH_BYTES

_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    # More threads would be outside Landlock, and gain nothing.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
_MAX_ANSWER_BYTES = 4 << 20
_PIECE_BYTES = 1 << 20


class ChildFailedError(Exception):
    """The process crashed, hung, or answered what is no answer; the text says which."""

    def __init__(self, why: str, exit_code: int | None = None) -> None:
        super().__init__(why)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Where the bytes behind an answer go: a new file, not longer than allowed."""

    path: Path
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPayload:
    """The bytes that came."""

    size_bytes: int
    sha256: str
    """64 hex digits."""


async def run_child(
    module: str,
    orders: bytes,
    *,
    descriptors: Collection[int],
    timeout_s: float,
    payload: Payload | None = None,
) -> tuple[bytes, StoredPayload | None]:
    """Starts `python -I -m module`, gives it orders and open files, and takes its answer.

    Returns the answer's JSON, not yet looked at, and what went into `payload`; None when nothing
    came. Raises ChildFailedError, and ResourcePressureError when no process can be started or the
    payload can not be written.
    """
    try:
        process = await _start(module, descriptors)
    except OSError as error:
        raise ResourcePressureError(
            "this node can start no process to verify the adapter: try again later",
            metadata={"resource": "processes"},
        ) from error
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(timeout_s):
            process.stdin.write(orders)
            process.stdin.close()
            answer = await read_answer(process.stdout)
            stored = None if answer is None else await store_payload(process.stdout, payload)
            exit_code = await process.wait()
    except TimeoutError:
        raise ChildFailedError(f"it took more than {timeout_s:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if exit_code != 0:
        raise ChildFailedError("it made the process fail", exit_code)
    if answer is None:
        raise ChildFailedError("the process gave no answer")
    return answer, stored


async def _start(module: str, descriptors: Collection[int]) -> Process:
    # Started by exec: gRPC does not survive a fork, and the child shares no memory with us.
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-B",
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=descriptors,
        env=_ENVIRONMENT,
        cwd="/",
        start_new_session=True,
        limit=_PIECE_BYTES,
    )


async def read_answer(output: StreamReader) -> bytes | None:
    """The JSON of an answer, None when the output ends too early. Raises ChildFailedError."""
    try:
        length = int.from_bytes(await output.readexactly(LENGTH_BYTES), "little")
        if length > _MAX_ANSWER_BYTES:
            raise ChildFailedError("the process gave no answer")
        return await output.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


async def store_payload(output: StreamReader, payload: Payload | None) -> StoredPayload | None:
    """Writes and syncs all that follows an answer; None when nothing does.

    Raises ChildFailedError when it is more than allowed, ResourcePressureError when it can not be
    written; then part of the file may be there.
    """
    first = await output.read(_PIECE_BYTES)
    if not first:
        return None
    if payload is None:
        raise ChildFailedError("its answer is too long")
    hasher = hashlib.sha256()
    size_bytes = 0
    with storage_errors():
        descriptor = os.open(
            payload.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
    try:
        piece = first
        while piece:
            size_bytes += len(piece)
            if size_bytes > payload.max_bytes:
                raise ChildFailedError("its answer is too long")
            hasher.update(piece)
            await in_thread(_write, descriptor, piece)
            piece = await output.read(_PIECE_BYTES)
        await in_thread(_sync, descriptor)
    finally:
        os.close(descriptor)
    return StoredPayload(size_bytes=size_bytes, sha256=hasher.hexdigest())


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    with storage_errors():
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _sync(descriptor: int) -> None:
    with storage_errors():
        os.fsync(descriptor)
