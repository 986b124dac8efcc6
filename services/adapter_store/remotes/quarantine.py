"""Where bytes of remotes lie until they are whole: private, bounded, kept over a restart."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from edgelora.errors import ResourcePressureError
from services.adapter_store.upload import storage_errors

_PARTIAL = re.compile(r"[A-Za-z0-9._-]{1,64}@[0-9a-f]{64}")
_PIECE_BYTES = 1 << 20


class PartialFile:
    """A file on its way, hashed as far as it goes. Blocks on storage."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        with storage_errors():
            self._descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        self._max_bytes = max_bytes
        self._hasher = hashlib.sha256()
        self.size_bytes = 0

    def load(self) -> None:
        """Reads and hashes what an earlier try or process left: only its bytes are believed.

        Raises ResourcePressureError.
        """
        with storage_errors():
            while piece := os.read(self._descriptor, _PIECE_BYTES):
                self._hasher.update(piece)
                self.size_bytes += len(piece)
                if self.size_bytes > self._max_bytes:
                    self.restart()
                    return

    @property
    def digest(self) -> str:
        """Of what is there, as OCI writes it."""
        return f"sha256:{self._hasher.hexdigest()}"

    def append(self, data: bytes) -> None:
        """Writes on. Raises ResourcePressureError."""
        with storage_errors():
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        self._hasher.update(data)
        self.size_bytes += len(data)

    def restart(self) -> None:
        """Throws away what is there."""
        with storage_errors():
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
        self._hasher = hashlib.sha256()
        self.size_bytes = 0

    def sync(self) -> None:
        """Makes it survive a power cut."""
        with storage_errors():
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Keeps the file for a later try."""
        os.close(self._descriptor)


class Quarantine:
    """The directory: partial files by remote and digest, and whole packages about to be verified.

    Methods look and make entries, and read no content.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_partial_bytes: int,
        max_age_s: float,
        min_free_bytes: int,
        unix_clock_s: Callable[[], float],
    ) -> None:
        self._partials = directory / "partial"
        self._packages = directory / "packages"
        self._max_partial_bytes = max_partial_bytes
        self._max_age_s = max_age_s
        self._min_free_bytes = min_free_bytes
        self._unix_clock_s = unix_clock_s
        self._announced: dict[Path, int] = {}
        for place in (directory, self._partials, self._packages):
            place.mkdir(mode=0o700, exist_ok=True)
            place.chmod(0o700)

    def sweep(self) -> None:
        """Removes packages a crash left, and partial files that are old or none of ours."""
        shutil.rmtree(self._packages)
        self._packages.mkdir(mode=0o700)
        oldest_s = self._unix_clock_s() - self._max_age_s
        for entry in list(os.scandir(self._partials)):
            is_ours = entry.is_file(follow_symlinks=False) and _PARTIAL.fullmatch(entry.name)
            if not is_ours or entry.stat(follow_symlinks=False).st_mtime < oldest_s:
                _remove(Path(entry.path))

    def begin(self, remote: str, digest: str, size_bytes: int) -> PartialFile:
        """Opens the partial file of a layer, making room for all of it.

        Raises ResourcePressureError. Every `begin` is followed by `keep` or by `finish`.
        """
        path = self._partials / f"{remote}@{digest.removeprefix('sha256:')}"
        self._announced[path] = size_bytes
        try:
            with storage_errors():
                self._make_room()
            return PartialFile(path, size_bytes)
        except BaseException:
            del self._announced[path]
            raise

    def keep(self, partial: PartialFile) -> None:
        """Closes a partial file for a later try; room may be made of it."""
        partial.close()
        self._announced.pop(partial.path, None)

    def finish(self, partial: PartialFile) -> Path:
        """Closes a file that is whole. It stays until `remove`."""
        partial.close()
        return partial.path

    def remove(self, path: Path) -> None:
        """Lets a finished file go; links to it stay."""
        self._announced.pop(path, None)
        with suppress(OSError):  # swept at a later start
            path.unlink()

    def new_package(self) -> Path:
        """A private empty directory."""
        with storage_errors():
            return Path(tempfile.mkdtemp(dir=self._packages))

    def _make_room(self) -> None:
        """Lets the longest untouched partial files go until all announced bytes fit."""
        idle = sorted(
            (stat.st_mtime, Path(entry.path), stat.st_size)
            for entry in os.scandir(self._partials)
            if Path(entry.path) not in self._announced
            and (stat := entry.stat(follow_symlinks=False))
        )
        kept_bytes = sum(size for _, _, size in idle)
        announced_bytes = sum(self._announced.values())
        while True:
            free_bytes = shutil.disk_usage(self._partials).free
            fits = kept_bytes + announced_bytes <= self._max_partial_bytes
            if fits and free_bytes - self._missing_bytes() >= self._min_free_bytes:
                return
            if not idle:
                raise ResourcePressureError(
                    "there is no space for the package: remove adapters, or try again later",
                    metadata={"resource": "storage"},
                )
            _, path, size_bytes = idle.pop(0)
            path.unlink()
            kept_bytes -= size_bytes

    def _missing_bytes(self) -> int:
        """Announced and not yet written."""
        return sum(
            max(0, size - (path.stat().st_size if path.exists() else 0))
            for path, size in self._announced.items()
        )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
