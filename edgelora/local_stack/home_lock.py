"""One stack for each home."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from edgelora.local_stack.errors import StackError
from edgelora.local_stack.layout import StackLayout


@contextmanager
def home_lock(layout: StackLayout) -> Iterator[None]:
    """Holds the home for one launcher.

    The lock is on the directory itself: there is no lock file to leave behind, and the kernel
    frees it however the launcher ends.

    Raises StackError when another launcher holds it.
    """
    descriptor = os.open(layout.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StackError(
                f"a stack is running already with home {layout.home}: "
                "stop it, or choose another --home"
            ) from error
        yield
    finally:
        os.close(descriptor)
