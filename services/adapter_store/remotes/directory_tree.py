"""Opens files below a directory of the operator, following no link a medium may hold."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from services.adapter_store.remotes.failures import (
    FailureKind,
    RemoteFailure,
    absent,
    unreachable,
)

_MISSING = {errno.ENOENT, errno.ENOTDIR}
_LINK = {errno.ELOOP, errno.EMLINK}


class Directory:
    """A directory, mounted or not, looked at afresh each time."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, path: str) -> BinaryIO:
        """Opens a regular file by its relative path, one part at a time. Raises RemoteFailure."""
        here = self._open_root()
        try:
            parts = path.split("/")
            for index, part in enumerate(parts):
                is_last = index == len(parts) - 1
                # Opening a pipe or a device must not block, and neither is a file.
                kind = os.O_NONBLOCK if is_last else os.O_DIRECTORY
                inner = os.open(
                    part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind, dir_fd=here
                )
                os.close(here)
                here = inner
            if not stat.S_ISREG(os.fstat(here).st_mode):
                raise _no_file()
        except OSError as error:
            os.close(here)
            if error.errno in _MISSING:
                raise absent() from None
            if error.errno in _LINK:
                raise _no_file() from None
            raise unreachable("its storage can not be read") from error
        except BaseException:
            os.close(here)
            raise
        return os.fdopen(here, "rb", buffering=0)

    def _open_root(self) -> int:
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise unreachable("its directory is not there") from error
        with os.scandir(root) as entries:
            if next(entries, None) is None:
                os.close(root)
                # Where a medium was unplugged, the place it was mounted on is left.
                raise unreachable("its directory is empty: is the medium mounted?")
        return root


def _no_file() -> RemoteFailure:
    return RemoteFailure(
        FailureKind.UNUSABLE,
        "a file of the package is a link or no file at all: the remote has to hold the files",
    )
