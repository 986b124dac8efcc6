"""Runs a command as on a kernel without Landlock or seccomp: `older_kernel.py landlock -- COMMAND`.

The calls that would use them fail with ENOSYS, by a seccomp filter the command inherits.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

PATH = Path(__file__)
CALLS = {
    "x86_64": {"landlock": (444, 445, 446), "seccomp": (317,)},
    "aarch64": {"landlock": (444, 445, 446), "seccomp": (277,)},
}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2


def command_without(missing: list[str], command: list[str]) -> list[str]:
    """A command that runs another one without some of the kernel's features."""
    return [sys.executable, str(PATH), *missing, "--", *command] if missing else command


def hide(missing: list[str]) -> None:
    """Lets the calls behind features fail from now on, for this process and its children."""
    numbers = [n for name in missing for n in CALLS[os.uname().machine][name]]
    program = [struct.pack("=HBBI", 0x20, 0, 0, 0)]
    for number in numbers:
        program.append(struct.pack("=HBBI", 0x15, 0, 1, number))
        program.append(struct.pack("=HBBI", 0x06, 0, 0, 0x00050000 | errno.ENOSYS))
    program.append(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("@HP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) == 0


if __name__ == "__main__":
    split = sys.argv.index("--")
    hide(sys.argv[1:split])
    os.execv(sys.argv[split + 1], sys.argv[split + 1 :])
