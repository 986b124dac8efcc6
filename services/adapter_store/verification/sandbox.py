"""What a process gives up before it reads what a stranger wrote, and how much that was."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from services.adapter_store.verification import landlock, system_calls

LEVELS = ("none", "rlimits", "landlock", "landlock+seccomp")
"""From the weakest to the strongest; each has what those before it have."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_NOBODY = 65534
EXIT_FORBIDDEN = 3
"""Status of a process that tried what it had given up, and was stopped by the interpreter."""
_HARMLESS_EVENTS = frozenset({"array.__new__", "builtins.id", "ctypes.create_string_buffer"})
"""Raised by making buffers, in numpy and for calls into the native core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a process has given up."""

    level: str
    """One of LEVELS."""
    landlock_abi: int
    """0: without Landlock."""
    has_seccomp: bool
    """Without Landlock the level does not count it, but it holds."""
    is_root: bool
    """Still the superuser, because the kernel allowed no other user."""


def reaches(level: str, minimum: str) -> bool:
    """Whether a level is at least another one."""
    return LEVELS.index(level) >= LEVELS.index(minimum)


def enter(memory_bytes: int, cpu_s: int) -> Sandbox:
    """Gives up every right this process needs no more; only its open files are left.

    `memory_bytes` may be taken beside what is mapped now. Whatever the kernel lacks is left out and
    shows in the result. From here on the interpreter itself ends the process when it opens,
    imports, compiles or starts anything (PEP 578).
    """
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    # Landlock binds the calling thread alone.
    is_alone = len(list(Path("/proc/self/task").iterdir())) == 1
    is_root = not _leave_root()
    has_rlimits = _forbid_new_rights()
    abi = _use_landlock() if is_alone and has_rlimits else 0
    has_rlimits = has_rlimits and _limit(used_bytes + memory_bytes, cpu_s)
    has_seccomp = has_rlimits and _use_seccomp()
    sys.addaudithook(_forbid)
    return Sandbox(
        level=level_of(has_rlimits, abi, has_seccomp, is_root=is_root),
        landlock_abi=abi,
        has_seccomp=has_seccomp,
        is_root=is_root,
    )


def level_of(has_rlimits: bool, landlock_abi: int, has_seccomp: bool, *, is_root: bool) -> str:
    """The level that what was given up amounts to.

    The superuser is bound by no limit on processes, so seccomp has to bind it.
    """
    if not has_rlimits or (is_root and not has_seccomp):
        return "none"
    if landlock_abi == 0:
        return "rlimits"
    return "landlock+seccomp" if has_seccomp else "landlock"


def _leave_root() -> bool:
    """Becomes nobody where it was root: limits on processes do not hold for root."""
    if os.geteuid() != 0:
        return True
    try:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    except OSError:  # a user namespace that knows no other user
        return False
    return True


def _forbid_new_rights() -> bool:
    libc = ctypes.CDLL(None)
    # Changing the user undoes the second, so both come after it.
    return not (
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        or libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    )


def _limit(memory_bytes: int, cpu_s: int) -> bool:
    try:
        for name, limit in (
            (resource.RLIMIT_AS, memory_bytes),
            (resource.RLIMIT_CPU, cpu_s),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_NOFILE, 0),
            (resource.RLIMIT_NPROC, 0),
        ):
            _, hard = resource.getrlimit(name)
            lowered = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(name, (lowered, lowered))
    except OSError:
        return False
    return True


def _use_landlock() -> int:
    abi = landlock.supported_abi()
    try:
        if abi > 0:
            landlock.restrict(abi)
    except OSError:
        return 0
    return abi


def _use_seccomp() -> bool:
    architecture = system_calls.this_architecture()
    if architecture is None:
        return False
    try:
        system_calls.restrict(architecture)
    except OSError:
        return False
    return True


def _forbid(event: str, _arguments: tuple[object, ...]) -> None:
    # Importing, opening, executing, unpickling and connecting all raise an event of another name.
    if event not in _HARMLESS_EVENTS:
        os._exit(EXIT_FORBIDDEN)
