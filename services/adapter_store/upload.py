"""Uploads on their way in: a private staging directory each, bounded, hashed while written."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from edgelora.adapter_format import MAX_CONFIG_BYTES
from edgelora.errors import (
    AdapterRejectedError,
    InvalidRequestError,
    QueueFullError,
    ResourcePressureError,
)

FileKind = Literal["config", "weights"]
FILE_NAMES: dict[FileKind, str] = {
    "config": "adapter_config.json",
    "weights": "adapter_model.safetensors",
}
MAX_CHUNK_BYTES = 1 << 20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turns what a full or failing storage raises into ResourcePressureError."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        number = getattr(error, "errno", None)
        is_full = number in _FULL or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        why = "has no space left" if is_full else "can not be written"
        raise ResourcePressureError(
            f"the storage of the adapter store {why}: nothing was changed, try again later",
            metadata={"resource": "storage"},
        ) from error


class StagedUpload:
    """Two files being written. Blocks on storage, so it is called from a thread."""

    def __init__(self, directory: Path, sizes: dict[FileKind, int]) -> None:
        self.directory = directory
        self._sizes = sizes
        self._written: dict[FileKind, int] = {"config": 0, "weights": 0}
        self._hashers = {"config": hashlib.sha256(), "weights": hashlib.sha256()}
        with storage_errors():
            self._files = {
                kind: os.open(
                    directory / kind, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                )
                for kind in FILE_NAMES
            }

    def path(self, kind: FileKind) -> Path:
        """Where a file lies while it is staged."""
        return self.directory / kind

    def sha256(self, kind: FileKind) -> bytes:
        """The hash of what was written."""
        return self._hashers[kind].digest()

    def write(self, kind: FileKind, data: bytes) -> None:
        """Appends to a file; the config comes first and whole.

        Raises InvalidRequestError when the order or an announced size is not kept,
        ResourcePressureError when the storage fails.
        """
        if not data or len(data) > MAX_CHUNK_BYTES:
            raise InvalidRequestError(
                f"a chunk has to hold 1 to {MAX_CHUNK_BYTES} bytes", field="chunk.data"
            )
        if kind == "config" and self._written["weights"]:
            raise InvalidRequestError(
                "the chunks of the config have to come before those of the weights",
                field="chunk.file",
            )
        if self._written[kind] + len(data) > self._sizes[kind]:
            raise InvalidRequestError(
                f"{FILE_NAMES[kind]} is longer than the {self._sizes[kind]} bytes announced",
                field="chunk.data",
            )
        if kind == "weights" and self._written["config"] < self._sizes["config"]:
            raise self._short("config")
        with storage_errors():
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._files[kind], rest) :]
        self._hashers[kind].update(data)
        self._written[kind] += len(data)

    def finish(self) -> None:
        """Ends the writing: both files complete, and on storage.

        Raises InvalidRequestError when one is shorter than announced.
        """
        for kind in FILE_NAMES:
            if self._written[kind] < self._sizes[kind]:
                raise self._short(kind)
        with storage_errors():
            for descriptor in self._files.values():
                os.fsync(descriptor)

    def replace_config(self, canonical: bytes) -> str:
        """Puts the canonical config in place of the uploaded one; returns its blob name."""
        path = self.path("config")
        with storage_errors():
            path.unlink()
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(canonical)
                file.flush()
                os.fsync(file.fileno())
        return hashlib.sha256(canonical).hexdigest()

    def discard(self) -> None:
        """Removes whatever is left of the upload."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files = {}
        shutil.rmtree(self.directory, ignore_errors=True)

    def _short(self, kind: FileKind) -> InvalidRequestError:
        return InvalidRequestError(
            f"{FILE_NAMES[kind]} has {self._written[kind]} of the {self._sizes[kind]} bytes "
            "announced: the upload was cut",
            field="chunk",
        )


class UploadArea:
    """The staging directory: admits uploads while there are places and storage."""

    def __init__(
        self, directory: Path, *, max_adapter_bytes: int, max_uploads: int, min_free_bytes: int
    ) -> None:
        self._directory = directory
        self._max_adapter_bytes = max_adapter_bytes
        self._max_uploads = max_uploads
        self._min_free_bytes = min_free_bytes
        self._announced: dict[StagedUpload, int] = {}
        directory.mkdir(mode=0o700, exist_ok=True)
        directory.chmod(0o700)

    def sweep(self) -> int:
        """Removes what a crash left behind; returns how many uploads that were."""
        leftovers = list(self._directory.iterdir())
        for leftover in leftovers:
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()
        return len(leftovers)

    def begin(self, config_bytes: int, weights_bytes: int) -> StagedUpload:
        """Admits an upload of the announced sizes.

        Raises AdapterRejectedError for sizes that can not be right, QueueFullError,
        ResourcePressureError.
        """
        self._check_sizes(config_bytes, weights_bytes)
        if len(self._announced) >= self._max_uploads:
            raise QueueFullError(
                f"{self._max_uploads} uploads are running: try again", retry_after_s=1.0
            )
        wanted = config_bytes + weights_bytes
        with storage_errors():
            free = shutil.disk_usage(self._directory).free
        if free - sum(self._announced.values()) - wanted < self._min_free_bytes:
            raise ResourcePressureError(
                f"the adapter store has no space left for {wanted} bytes: remove adapters first",
                metadata={"resource": "storage"},
            )
        with storage_errors():
            private = Path(tempfile.mkdtemp(dir=self._directory))
        upload = StagedUpload(private, {"config": config_bytes, "weights": weights_bytes})
        self._announced[upload] = wanted
        return upload

    def end(self, upload: StagedUpload) -> None:
        """Gives the place back and leaves nothing behind."""
        self._announced.pop(upload, None)
        upload.discard()

    def _check_sizes(self, config_bytes: int, weights_bytes: int) -> None:
        limits: tuple[tuple[FileKind, int, int], ...] = (
            ("config", config_bytes, MAX_CONFIG_BYTES),
            ("weights", weights_bytes, self._max_adapter_bytes),
        )
        for kind, size_bytes, limit in limits:
            field = f"header.{kind}_size_bytes"
            if size_bytes == 0:
                raise AdapterRejectedError(
                    f"{FILE_NAMES[kind]} is missing or empty: both files are needed", field=field
                )
            if size_bytes > limit:
                raise AdapterRejectedError(
                    f"{FILE_NAMES[kind]} has {size_bytes} bytes, the limit is {limit}", field=field
                )
