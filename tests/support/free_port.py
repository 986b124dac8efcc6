"""Ports for real servers that cannot be told to choose one."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

_START_LIMIT_S = 20.0


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Blocks until the process accepts connections."""
    end = time.monotonic() + _START_LIMIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"never listened: {log.read_text()}") from None
            time.sleep(0.02)
