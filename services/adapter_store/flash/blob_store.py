"""Files under their own SHA-256: written once, read-only, whole or absent."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator
from pathlib import Path

from edgelora.errors import DataCorruptError

_NAME = re.compile(r"[0-9a-f]{64}")
_PIECE_BYTES = 256 * 1024


def sync_directory(directory: Path) -> None:
    """Makes the entries of a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BlobStore:
    """A flat directory of blobs. Names are hex digests, so no caller's text becomes a path.

    All methods block on storage.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, exist_ok=True)
        directory.chmod(0o700)
        self.total_bytes = sum(
            entry.stat(follow_symlinks=False).st_size for entry in os.scandir(directory)
        )
        """What all blobs take."""

    def has(self, name: str) -> bool:
        """Whether a blob of that name is there."""
        return self._path(name).exists()

    def adopt(self, file: Path, name: str) -> None:
        """Moves a finished, synced file of the same file system in, replacing an equal one.

        Replacing also repairs a blob that was damaged on storage.
        """
        file.chmod(0o400)
        new_bytes, old_bytes = file.stat().st_size, self._size(name)
        file.replace(self._path(name))
        self.total_bytes += new_bytes - old_bytes
        sync_directory(self.directory)

    def check(self, name: str, size_bytes: int) -> None:
        """Raises DataCorruptError unless the blob is there, whole and unchanged."""
        hasher = hashlib.sha256()
        actual_bytes = 0
        try:
            for piece in self.read(name):
                hasher.update(piece)
                actual_bytes += len(piece)
        except OSError:
            raise _corrupt() from None
        if actual_bytes != size_bytes or hasher.hexdigest() != name:
            raise _corrupt()

    def read(self, name: str) -> Generator[bytes]:
        """The blob in pieces of 256 KiB."""
        descriptor = os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece

    def remove(self, name: str) -> None:
        """Removes a blob if it is there. Readers that opened it keep what they opened."""
        size_bytes = self._size(name)
        self._path(name).unlink(missing_ok=True)
        self.total_bytes -= size_bytes

    def sweep(self, used: set[str]) -> int:
        """Removes everything but the used blobs; returns how many files went."""
        num_removed = 0
        for entry in list(os.scandir(self.directory)):
            if entry.name not in used and entry.is_file(follow_symlinks=False):
                self.total_bytes -= entry.stat(follow_symlinks=False).st_size
                Path(entry.path).unlink()
                num_removed += 1
        return num_removed

    def probe(self) -> None:
        """Raises OSError when the directory can not be read."""
        with os.scandir(self.directory) as entries:
            next(entries, None)

    def _size(self, name: str) -> int:
        try:
            return self._path(name).stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0

    def _path(self, name: str) -> Path:
        if _NAME.fullmatch(name) is None:
            raise ValueError("a blob name is 64 hex digits")
        return self.directory / name


def _corrupt() -> DataCorruptError:
    return DataCorruptError(
        "the stored adapter does not match its checksum: register it again", field="adapter"
    )
