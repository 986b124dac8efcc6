"""Directories and files that appear at once when complete, or not at all."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from edgelora.toolchain.errors import ToolchainError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_ATTEMPTS = 10


@contextmanager
def published_directory(target: Path) -> Iterator[Path]:
    """Yields an empty directory to fill; renames it to `target` when the block ends well.

    An existing `target` stays whole until that moment and is then replaced; whoever has its files
    open keeps them. An error, Ctrl-C or SIGTERM removes what was written. Raises ToolchainError
    while another process fills a directory for the same `target`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target)
    with _claimed(partial, Path.mkdir, target.name):
        restore_interrupted(target)
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
    """Yields an empty file to write; renames it to `target` when the block ends well.

    An error, Ctrl-C or SIGTERM removes what was written. Raises ToolchainError while another
    process writes a file for the same `target`.
    """
    partial = _partial(target)
    with _claimed(partial, lambda path: path.touch(exist_ok=False), target.name):
        try:
            with _termination_as_interrupt():
                yield partial
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _partial(target: Path) -> Path:
    if target.name in ("", ".."):
        raise ToolchainError("the output needs a name of its own: give one")
    return target.with_name(f".{target.name}.partial")


@contextmanager
def _claimed(partial: Path, make: Callable[[Path], None], name: str) -> Iterator[None]:
    """Makes `partial` and holds its lock. The kernel frees it when we die: what is there without
    one was left by a run that was killed outright."""
    lock = None
    for _ in range(_ATTEMPTS):
        try:
            make(partial)
        except FileExistsError:
            _remove_unclaimed(partial, name)
        else:
            lock = _locked(partial, name)
            if lock is not None:
                break
    if lock is None:
        raise ToolchainError(f"{partial.name} cannot be removed: remove it by hand")
    try:
        yield
    finally:
        os.close(lock)


def _remove_unclaimed(partial: Path, name: str) -> None:
    is_ours = not partial.is_symlink() and (partial.is_dir() or partial.is_file())
    lock = _locked(partial, name) if is_ours else None
    _remove(partial)
    if lock is not None:
        os.close(lock)


def _locked(partial: Path, name: str) -> int | None:
    """A descriptor that holds the lock; None when `partial` has just gone, or is another one."""
    try:
        lock = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.lstat(partial)):
            return lock
    except BlockingIOError:
        os.close(lock)
        raise ToolchainError(f"another process writes {name!r}: wait until it is done") from None
    except FileNotFoundError:
        pass
    os.close(lock)
    return None


def _swap(partial: Path, target: Path) -> None:
    # A link that leads nowhere is in the way too.
    if os.path.lexists(target) and _exchange(partial, target):
        return
    old = _aside(target)
    _remove(old)
    if os.path.lexists(target):
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
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
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
