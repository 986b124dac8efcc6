"""The store's directory: one owner at a time, private, swept at the start."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.adapter_store.flash.blob_store import BlobStore, sync_directory
from services.adapter_store.registry.registry import Registry
from services.adapter_store.registry.writer import RegistryWriter
from services.chassis.logs import get_logger

REGISTRY_FILE = "registry.sqlite3"
BLOB_DIRECTORY = "blobs"
STAGING_DIRECTORY = "staging"
_STORAGE_FAILURES = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
"""What says nothing about the content of a database: a full disk, a failed read."""


@dataclass(frozen=True, slots=True)
class Storage:
    """What lies in the directory."""

    reader: Registry
    """For lookups on the event loop; never waits for the writer."""
    writer: RegistryWriter
    """For changes, one at a time, in a thread."""
    blobs: BlobStore
    staging: Path


@contextmanager
def open_storage(directory: Path) -> Iterator[Storage]:
    """Opens the directory, creating what is missing and removing what nothing refers to.

    A damaged registry is set aside together with the blobs, never deleted; one that can not be
    read just now is left alone. Raises OSError when the directory can not be used or another store
    uses it.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    with ExitStack() as stack:
        stack.enter_context(_owned(directory))
        writer = stack.enter_context(closing(_open_registry(directory)))
        reader = stack.enter_context(closing(Registry(directory / REGISTRY_FILE)))
        blobs = BlobStore(directory / BLOB_DIRECTORY)
        num_swept = blobs.sweep(writer.blobs())
        sync_directory(directory)
        if num_swept:
            get_logger().info("unused_blobs_removed", count=num_swept)
        yield Storage(reader, writer, blobs, directory / STAGING_DIRECTORY)


@contextmanager
def _owned(directory: Path) -> Iterator[None]:
    # The lock is on the directory itself: it ends with the process and leaves no file.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"another adapter store uses {directory}") from None
        yield
    finally:
        os.close(descriptor)


def _open_registry(directory: Path) -> RegistryWriter:
    path = directory / REGISTRY_FILE
    try:
        registry = RegistryWriter(path)
        try:
            registry.check()
        except BaseException:
            registry.close()
            raise
    except sqlite3.DatabaseError as error:
        if _is_storage_failure(error):
            raise OSError(f"the adapter registry {path} can not be opened: {error}") from error
        _set_aside(directory)
        registry = RegistryWriter(path)
    path.chmod(0o600)
    return registry


def _is_storage_failure(error: sqlite3.DatabaseError) -> bool:
    # The low byte is the primary code; an error of our own has none.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF in _STORAGE_FAILURES


def _set_aside(directory: Path) -> None:
    place = directory / f"damaged-{time.time_ns()}"
    place.mkdir(mode=0o700)
    for name in (REGISTRY_FILE, f"{REGISTRY_FILE}-wal", f"{REGISTRY_FILE}-shm", BLOB_DIRECTORY):
        if (directory / name).exists():
            (directory / name).rename(place / name)
    get_logger().error("damaged_registry_set_aside", directory=place.name)
