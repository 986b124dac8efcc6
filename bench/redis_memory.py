"""A private Redis for a store, and how much memory its index takes there."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.result import BenchError
from edgelora.local_stack import redis_server
from edgelora.local_stack.errors import StackError
from edgelora.local_stack.log_files import last_line
from edgelora.local_stack.processes import ChildProcess
from edgelora.local_stack.redis_binary import find_redis_binary
from edgelora.local_stack.redis_rights import USER

_OBSERVER = "bench"
_POLL_S = 0.05
_READY_LIMIT_S = 20.0
_STOP_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class BenchRedis:
    """A running server, and a user that may ask for its memory."""

    url: str
    password_file: Path
    """The store's password."""
    _socket: Path
    _observer_password: str

    async def used_bytes(self) -> int:
        """What the server has allocated in all."""
        report = await self._ask("INFO", "memory")
        assert isinstance(report, bytes)
        fields = dict(line.split(":", 1) for line in report.decode().split() if ":" in line)
        return int(fields["used_memory"])

    async def wait_for_key(self, key: str) -> int:
        """The bytes a key takes, its value included, once it is there."""
        async with asyncio.timeout(_READY_LIMIT_S):
            while True:
                size = await self._ask("MEMORY", "USAGE", key, "SAMPLES", "0")
                if isinstance(size, int):
                    return size
                await asyncio.sleep(_POLL_S)

    async def _ask(self, *words: str) -> bytes | int | None:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(_command("AUTH", _OBSERVER, self._observer_password) + _command(*words))
            await _answer(reader)
            return await _answer(reader)
        finally:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def bench_redis(directory: Path) -> AsyncIterator[BenchRedis]:
    """Runs the Redis a stack would run. Raises BenchError when there is none."""
    try:
        program = find_redis_binary().path
    except StackError as error:
        raise BenchError(str(error)) from error
    socket, password, observer = directory / "redis.sock", secrets.token_hex(), secrets.token_hex()
    config = redis_server.write_config(directory, socket, password)
    hashed = hashlib.sha256(observer.encode()).hexdigest()
    with config.open("a", encoding="utf-8") as file:
        file.write(f"user {_OBSERVER} on #{hashed} ~* resetchannels -@all +info +memory|usage\n")
    password_file = directory / "redis.password"
    password_file.write_text(password, encoding="ascii")
    log = directory / "redis.log"
    process = ChildProcess(
        [str(program), str(config)],
        environ={"PATH": os.environ.get("PATH", os.defpath)},
        log=log,
        pid_file=directory / "redis.pid",
    )
    try:
        async with asyncio.timeout(_READY_LIMIT_S):
            while not await redis_server.answers(socket, password):
                if process.exit_status() is not None:
                    raise BenchError(f"Redis does not start: {last_line(log)}")
                await asyncio.sleep(_POLL_S)
        yield BenchRedis(f"unix://{USER}@{socket}", password_file, socket, observer)
    finally:
        await process.stop(_STOP_GRACE_S)


async def _answer(reader: asyncio.StreamReader) -> bytes | int | None:
    """One reply of the Redis protocol (RESP 2), of the kinds that come here."""
    line = (await reader.readline()).strip()
    kind, text = line[:1], line[1:]
    if kind == b"+":
        return text
    if kind == b":":
        return int(text)
    if kind == b"$":
        return None if text == b"-1" else (await reader.readexactly(int(text) + 2))[:-2]
    raise BenchError(f"Redis answered {line.decode(errors='replace') or 'nothing'}")


def _command(*words: str) -> bytes:
    parts = [f"*{len(words)}\r\n".encode()]
    parts += [b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words]
    return b"".join(parts)
