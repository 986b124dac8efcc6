"""Seccomp: a short list of system calls that stay allowed, and nothing else.

The filter is a classic BPF program, made here because it is shorter than what a library would need:
https://docs.kernel.org/userspace-api/seccomp_filter.html. Numbers: the kernel's
arch/x86/entry/syscalls/syscall_64.tbl and scripts/syscall.tbl.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from dataclasses import dataclass

_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_KILL_PROCESS = 0x80000000

_LOAD = 0x20
_IF_EQUAL = 0x15
_IF_ANY_BIT = 0x45
_RETURN = 0x06
# Offsets in struct seccomp_data; of an argument its lower half, on a little-endian machine.
_NUMBER = 0
_ARCHITECTURE = 4
_FIRST_ARGUMENT = 16
_THIRD_ARGUMENT = 32

_PROT_EXEC = 4
_STANDARD_OUTPUT = 1


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a filter has to know of a processor's system calls."""

    audit_code: int
    """AUDIT_ARCH_* of linux/audit.h."""
    seccomp: int
    allowed: tuple[int, ...]
    """Calls allowed with any arguments: reading open files, memory, locks, clocks, random
    numbers and the end."""
    without_execution: tuple[int, ...]
    """mmap and mprotect: allowed unless they ask for memory that can be executed."""
    write: int
    """Allowed to standard output alone."""


_X86_64 = Architecture(
    audit_code=0xC000003E,
    seccomp=317,
    # read lseek munmap brk rt_sigprocmask rt_sigreturn pread64 sched_yield mremap madvise getpid
    # exit gettimeofday gettid futex restart_syscall clock_gettime clock_nanosleep exit_group
    # getrandom rseq
    allowed=(
        0, 8, 11, 12, 14, 15, 17, 24, 25, 28, 39, 60, 96, 186, 202, 219, 228, 230, 231, 318, 334,
    ),
    without_execution=(9, 10),
    write=1,
)  # fmt: skip
_AARCH64 = Architecture(
    audit_code=0xC00000B7,
    seccomp=277,
    # The same calls in the same order.
    allowed=(
        63, 62, 215, 214, 135, 139, 67, 124, 216, 233, 172, 93, 169, 178, 98, 128, 113, 115, 94,
        278, 293,
    ),
    without_execution=(222, 226),
    write=64,
)  # fmt: skip
ARCHITECTURES = {"x86_64": _X86_64, "aarch64": _AARCH64}
"""By the name `uname -m` gives a processor."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def this_architecture() -> Architecture | None:
    """What this process runs on; None when no filter is known for it."""
    if sys.maxsize < 2**32 or sys.byteorder != "little":
        return None
    return ARCHITECTURES.get(os.uname().machine)


def filter_program(architecture: Architecture) -> bytes:
    """The BPF program: eight bytes an instruction.

    A call of another architecture ends the process; one that is not allowed fails with EPERM.
    """
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_IF_EQUAL, architecture.audit_code, if_false=0, if_true=1),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, _NUMBER),
    ]
    for number in architecture.allowed:
        program += [
            _instruction(_IF_EQUAL, number, if_false=1),
            _instruction(_RETURN, _ALLOW),
        ]
    for number in architecture.without_execution:
        program += [
            _instruction(_IF_EQUAL, number, if_false=4),
            _instruction(_LOAD, _THIRD_ARGUMENT),
            _instruction(_IF_ANY_BIT, _PROT_EXEC, if_false=1),
            _instruction(_RETURN, _REFUSE),
            _instruction(_RETURN, _ALLOW),
        ]
    program += [
        _instruction(_IF_EQUAL, architecture.write, if_false=3),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_IF_EQUAL, _STANDARD_OUTPUT, if_false=1),
        _instruction(_RETURN, _ALLOW),
        _instruction(_RETURN, _REFUSE),
    ]
    return b"".join(program)


def _instruction(code: int, operand: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction; `if_true` and `if_false` are how many of the next ones are skipped."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def restrict(architecture: Architecture) -> None:
    """Allows all threads of this process nothing but the listed calls. Needs `no_new_privs`.

    Raises OSError.
    """
    instructions = filter_program(architecture)
    program = _Program(len(instructions) // 8, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.syscall(
        ctypes.c_long(architecture.seccomp),
        ctypes.c_uint(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_uint(_SECCOMP_FILTER_FLAG_TSYNC),
        ctypes.byref(program),
    ):
        raise OSError(ctypes.get_errno(), "seccomp failed")
