"""Directories and files that appear at once when complete, or not at all."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def published_directory(target: Path) -> Iterator[Path]:
    """Yields an empty directory to fill; renames it to `target` when the block ends well.

    An existing `target` stays whole until that moment and is then replaced; whoever has its files
    open keeps them. An error, Ctrl-C or SIGTERM removes what was written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed outright
    partial.mkdir()
    try:
        with _termination_as_interrupt():
            yield partial
        _swap(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


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
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    try:
        partial.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


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
