"""A private Redis: its configuration, its command line and its readiness.

It listens on a unix socket in the run directory and on no port. Its only user is the adapter
store's, bound to that service's keys, channels and commands. The configuration holds a hash of the
password, and the password is in no command line.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from pathlib import Path

from edgelora.local_stack.redis_rights import USER, acl_line

_TIMEOUT_S = 1.0


def write_config(directory: Path, socket: Path, password: str) -> Path:
    """Writes the server's configuration, 0600, and returns its path."""
    lines = [
        "port 0",
        f"unixsocket {_quoted(socket)}",
        "unixsocketperm 700",
        "user default off",
        acl_line(hashlib.sha256(password.encode()).hexdigest()),
        "databases 1",
        # A hint index: losing it costs a rebuild, so nothing is written to flash.
        'save ""',
        "appendonly no",
        "maxmemory 64mb",
        "maxmemory-policy allkeys-lru",
        f"dir {_quoted(directory)}",
        "daemonize no",
        'logfile ""',
    ]
    path = directory / "redis.conf"
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


async def answers(socket: Path, password: str) -> bool:
    """Returns whether the server lets the store's user in and answers its PING."""
    writer = None
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(socket)
            writer.write(_command("AUTH", USER, password) + _command("PING"))
            return await reader.readline() == b"+OK\r\n" and await reader.readline() == b"+PONG\r\n"
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _command(*words: str) -> bytes:
    """One command in the Redis protocol (RESP): an array of bulk strings."""
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        data = word.encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
