"""Directories and files that appear at once when complete, or not at all."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def published_directory(target: Path) -> Iterator[Path]:
    """Yields an empty directory to fill; renames it to `target` when the block ends well.

    An existing `target` stays whole until that moment and is then replaced; whoever has its files
    open keeps them. An error, Ctrl-C or SIGTERM removes what was written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    restore_interrupted(target)
    partial = target.with_name(f".{target.name}.partial")
    _remove(partial)  # of a run that was killed outright
    partial.mkdir()
    try:
        with _termination_as_interrupt():
            yield partial
        _swap(partial, target)
    finally:
        _remove(partial)


def restore_interrupted(target: Path) -> None:
    """Brings back what a run killed in the middle of `_swap` had moved aside."""
    old = _aside(target)
    if old.exists() and not target.exists():
        old.rename(target)


@contextmanager
def published_file(target: Path) -> Iterator[Path]:
    """Yields a path to write; renames the file to `target` when the block ends well.

    An error, Ctrl-C or SIGTERM removes what was written.
    """
    partial = target.with_name(f".{target.name}.partial")
    try:
        with _termination_as_interrupt():
            yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _swap(partial: Path, target: Path) -> None:
    if target.exists() and _exchange(partial, target):
        return
    old = _aside(target)
    _remove(old)
    if target.exists():
        target.rename(old)
    try:
        partial.rename(target)
    except OSError:
        restore_interrupted(target)
        raise
    _remove(old)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two names in one step (renameat2(2)); false where the file system can not."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    names = (_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other))
    return bool(renameat2(*names, _RENAME_EXCHANGE) == 0)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM would end the process without a chance to tidy up; here it acts like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
