"""Runs a command that the kernel kills when its launcher dies, even by SIGKILL.

Used as a script: `python -I -S die_with_parent.py LAUNCHER_PID PROGRAM [ARGUMENT ...]`. It is a
program of its own because the setting must be made between fork and exec, where a process that
uses gRPC may run no Python code. It imports nothing of ours, so that it starts in milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ties this process to its launcher, then becomes the program."""
    launcher_pid = int(sys.argv[1])
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != launcher_pid:
        sys.exit("the launcher is gone")  # it died before the setting was made
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
