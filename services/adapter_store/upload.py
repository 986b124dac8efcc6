"""Uploads on their way in: a private staging directory each, bounded, hashed while written."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

from edgelora.adapter_format import MAX_CONFIG_BYTES, MAX_HEAD_BYTES
from edgelora.adapter_format.card import MAX_CARD_BYTES
from edgelora.errors import (
    AdapterRejectedError,
    InvalidRequestError,
    QueueFullError,
    ResourcePressureError,
)
from services.adapter_store.verification.probes import MAX_PROBE_BYTES

FileKind = Literal["config", "weights", "probe", "card", "head"]
FILE_NAMES: dict[FileKind, str] = {
    "config": "adapter_config.json",
    "weights": "adapter_model.safetensors",
    "probe": "probe.jsonl",
    "card": "card.json",
    "head": "head.json",
}
_OPTIONAL: set[FileKind] = {"probe", "card", "head"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFiles:
    """The files of one adapter in a private directory of ours, complete and on storage."""

    directory: Path
    config: Path
    weights: Path
    probe: Path | None
    card: Path | None
    weights_bytes: int
    weights_sha256: bytes
    """As it was while they were written."""
    encoded: Path | None = None
    """What a package says is the encoded form."""
    head: Path | None = None


class StagedUpload:
    """Files being written. Blocks on storage, so it is called from a thread."""

    def __init__(self, directory: Path, sizes: Mapping[FileKind, int]) -> None:
        """`sizes`: what was announced; a file of 0 bytes does not come."""
        self.directory = directory
        self._sizes = {kind: size_bytes for kind, size_bytes in sizes.items() if size_bytes}
        self._written: dict[FileKind, int] = dict.fromkeys(self._sizes, 0)
        self._weights_hash = hashlib.sha256()
        self._files: dict[FileKind, int] = {}
        try:
            with storage_errors():
                for kind in self._sizes:
                    self._files[kind] = os.open(
                        directory / kind, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                    )
        except ResourcePressureError:
            self.close()
            raise

    def files(self) -> AdapterFiles:
        """What was written, once it is finished."""
        return AdapterFiles(
            directory=self.directory,
            config=self.directory / "config",
            weights=self.directory / "weights",
            probe=self.directory / "probe" if "probe" in self._sizes else None,
            card=self.directory / "card" if "card" in self._sizes else None,
            weights_bytes=self._sizes["weights"],
            weights_sha256=self._weights_hash.digest(),
            head=self.directory / "head" if "head" in self._sizes else None,
        )

    def write(self, kind: FileKind, data: bytes) -> None:
        """Appends to a file; the files come one after the other, in the order of FILE_NAMES.

        Raises InvalidRequestError when the order or an announced size is not kept,
        ResourcePressureError when the storage fails.
        """
        if not data or len(data) > MAX_CHUNK_BYTES:
            raise InvalidRequestError(
                f"a chunk has to hold 1 to {MAX_CHUNK_BYTES} bytes", field="chunk.data"
            )
        announced_bytes = self._sizes.get(kind, 0)
        if self._written.get(kind, 0) + len(data) > announced_bytes:
            raise InvalidRequestError(
                f"{FILE_NAMES[kind]} is longer than the {announced_bytes} bytes announced",
                field="chunk.data",
            )
        kinds = list(FILE_NAMES)
        if any(self._written.get(later) for later in kinds[kinds.index(kind) + 1 :]):
            raise InvalidRequestError(
                f"the chunks have to come in the order {', '.join(FILE_NAMES.values())}",
                field="chunk.file",
            )
        for earlier in kinds[: kinds.index(kind)]:
            self._check_complete(earlier)
        with storage_errors():
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._files[kind], rest) :]
        if kind == "weights":
            self._weights_hash.update(data)
        self._written[kind] += len(data)

    def finish(self) -> AdapterFiles:
        """Ends the writing: all files complete, and on storage.

        Raises InvalidRequestError when one is shorter than announced.
        """
        for kind in FILE_NAMES:
            self._check_complete(kind)
        with storage_errors():
            for descriptor in self._files.values():
                os.fsync(descriptor)
        return self.files()

    def close(self) -> None:
        """Closes the files, complete or not."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files = {}

    def _check_complete(self, kind: FileKind) -> None:
        written_bytes, announced_bytes = self._written.get(kind, 0), self._sizes.get(kind, 0)
        if written_bytes < announced_bytes:
            raise InvalidRequestError(
                f"{FILE_NAMES[kind]} has {written_bytes} of the {announced_bytes} bytes "
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
        # Uploads begin and end in threads.
        self._changing = Lock()
        self._announced: dict[StagedUpload, int] = {}
        self._leftovers: set[Path] = set()
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

    def begin(self, sizes: Mapping[FileKind, int]) -> StagedUpload:
        """Admits an upload of the announced sizes; only probe, card and head may have 0 bytes.

        Raises AdapterRejectedError for sizes that can not be right, QueueFullError,
        ResourcePressureError.
        """
        self._check_sizes(sizes)
        with self._changing:
            # Storage that would not let go of these may have recovered.
            for directory in tuple(self._leftovers):
                self._clear(directory)
            return self._admit(sizes)

    def end(self, upload: StagedUpload) -> None:
        """Gives the place back and leaves nothing behind."""
        upload.close()
        with self._changing:
            self._announced.pop(upload, None)
            self._clear(upload.directory)

    def _admit(self, sizes: Mapping[FileKind, int]) -> StagedUpload:
        if len(self._announced) >= self._max_uploads:
            raise QueueFullError(
                f"{self._max_uploads} uploads are running: try again", retry_after_s=1.0
            )
        wanted = sum(sizes.values())
        with storage_errors():
            free = shutil.disk_usage(self._directory).free
        if free - sum(self._announced.values()) - wanted < self._min_free_bytes:
            raise ResourcePressureError(
                f"the adapter store has no space left for {wanted} bytes: remove adapters first",
                metadata={"resource": "storage"},
            )
        with storage_errors():
            private = Path(tempfile.mkdtemp(dir=self._directory))
        try:
            upload = StagedUpload(private, sizes)
        except ResourcePressureError:
            self._clear(private)
            raise
        self._announced[upload] = wanted
        return upload

    def _clear(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        if directory.exists():
            self._leftovers.add(directory)
        else:
            self._leftovers.discard(directory)

    def _check_sizes(self, sizes: Mapping[FileKind, int]) -> None:
        limits: dict[FileKind, int] = {
            "config": MAX_CONFIG_BYTES,
            "weights": self._max_adapter_bytes,
            "probe": MAX_PROBE_BYTES,
            "card": MAX_CARD_BYTES,
            "head": MAX_HEAD_BYTES,
        }
        for kind, limit in limits.items():
            size_bytes = sizes.get(kind, 0)
            field = f"header.{kind}_size_bytes"
            if size_bytes == 0 and kind not in _OPTIONAL:
                raise AdapterRejectedError(
                    f"{FILE_NAMES[kind]} is missing or empty: both files are needed", field=field
                )
            if size_bytes > limit:
                raise AdapterRejectedError(
                    f"{FILE_NAMES[kind]} has {size_bytes} bytes, the limit is {limit}", field=field
                )
