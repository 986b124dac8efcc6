"""Where the router comes from: the operator's file, and before there is one, the package's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from edgelora.errors import RouterMissingError
from edgelora.routing import Router, RouterFileError
from edgelora.routing.router import DEFAULT_FILE
from services.chassis.logs import get_logger

_RECHECK_S = 1.0
_REMEDY = "name an adapter, or let the operator run `edgelora router train`"
_Stamp = tuple[int, int, int]
"""Inode, size and time of the last change: another file, or other content."""


def packaged_file() -> Path:
    """Where the router that ships with the package is, if it ships one."""
    return Path(str(files("edgelora.routing") / DEFAULT_FILE))


class RouterSource:
    """The newest router that could be read. A file that changes is read again.

    The first file that is there counts: the operator's, which may come at any time, then the
    package's. One that can not be read never displaces a router that serves.
    """

    def __init__(self, paths: list[Path], clock: Callable[[], float]) -> None:
        """`clock`: seconds, for the pause between two looks at the files."""
        self._paths = paths
        self._clock = clock
        self._looked_s: float | None = None
        self._looking = asyncio.Lock()
        self._seen: tuple[Path, _Stamp] | None = None
        self._router: Router | None = None
        self._fault = "has no router"

    async def current(self) -> Router:
        """Returns the router. Raises RouterMissingError when none can be had."""
        if self._is_due():
            async with self._looking:
                if self._is_due():
                    await asyncio.to_thread(self._look)
                    self._looked_s = self._clock()
        if self._router is None:
            raise RouterMissingError(f"this node {self._fault}: {_REMEDY}")
        return self._router

    def _is_due(self) -> bool:
        return self._looked_s is None or self._clock() >= self._looked_s + _RECHECK_S

    def _look(self) -> None:
        found = next(((path, stamp) for path in self._paths if (stamp := _stamp(path))), None)
        if found is None or found == self._seen:
            return
        self._seen = found
        path, _ = found
        try:
            if not path.is_file():
                raise RouterFileError("it is no file")  # a pipe would hold the reader up
            self._router = Router.load(path)
        except (RouterFileError, OSError) as error:
            self._fault = "has a router file that can not be read"
            why = str(error) if isinstance(error, RouterFileError) else error.strerror
            get_logger().warning("router_refused", path=str(path), why=why)
        else:
            get_logger().info("router_loaded", path=str(path))


def _stamp(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
