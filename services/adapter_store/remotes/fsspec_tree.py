"""Opens files of whatever fsspec reaches: object stores, SFTP, other file systems."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from services.adapter_store.remotes.blocking_tree import OpenFile
from services.adapter_store.remotes.failures import RemoteFailure, absent, unreachable
from services.chassis.logs import get_logger

_BLOCK_BYTES = 512 * 1024
"""What one read asks the other side for."""
Option = str | int | float | bool


class FsspecFiles:
    """Files below an address that fsspec understands; the options are those of its protocol."""

    def __init__(self, url: str, options: Mapping[str, Option]) -> None:
        self._url = url
        self._options = options

    def open(self, path: str) -> OpenFile:
        """Opens a file by its relative path. Raises RemoteFailure."""
        try:
            file_system, root = self._place
            file = file_system.open(f"{root}/{path}", "rb", block_size=_BLOCK_BYTES)
        except FileNotFoundError:
            raise absent() from None
        except Exception as error:  # each protocol has errors of its own
            raise _failed(error) from error
        return _File(file)

    @cached_property
    def _place(self) -> tuple[Any, str]:
        import fsspec  # some protocols take a second to import

        file_system, root = fsspec.core.url_to_fs(self._url, **self._options)
        return file_system, str(root).rstrip("/")


class _File:
    """Turns every protocol's own errors into ours."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int, /) -> bytes:
        try:
            return cast(bytes, self._file.read(size))
        except Exception as error:
            raise _failed(error) from error

    def seek(self, offset: int, whence: int = 0, /) -> int:
        try:
            return int(self._file.seek(offset, whence))
        except Exception as error:
            raise _failed(error) from error

    def close(self) -> None:
        self._file.close()


def _failed(error: Exception) -> RemoteFailure:
    # The message may hold the operator's options.
    get_logger().warning("fsspec_remote_failed", error=type(error).__name__)
    return unreachable("its storage can not be read")
