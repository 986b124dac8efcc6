"""Lets a thread give way to those that run the steps. Does nothing where the system can not."""

from __future__ import annotations

import os
import threading

_NICENESS = 5
_LOWEST = 19


def lower_thread_priority() -> None:
    """Lowers the priority of the calling thread alone, for good.

    Linux counts a thread as a process here (setpriority(2), notes).
    """
    if hasattr(os, "setpriority") and os.uname().sysname == "Linux":
        thread = threading.get_native_id()
        # Beside the process's own: that one may have been started with less than usual.
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS
        os.setpriority(os.PRIO_PROCESS, thread, min(niceness, _LOWEST))
