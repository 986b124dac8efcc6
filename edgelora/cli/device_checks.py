"""What `doctor` reads of the device: processor and memory."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

MIN_MEMORY_GB = 4
RECOMMENDED_MEMORY_GB = 6
_VISIBLE_SHARE = 0.9
"""Of a device's nominal memory; firmware and graphics keep the rest."""
_GB = 10**9
_MIN_AVAILABLE_BYTES = 1.5 * _GB
_FAST_FLAGS = (
    *("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8"),
    *("asimd", "asimddp", "i8mm", "sve", "bf16"),
)
"""Instructions, by their names in /proc/cpuinfo, that matrix products profit from."""


class Level(StrEnum):
    """How a finding is to be taken."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    level: Level
    text: str


def device_findings(root: Path) -> Iterator[Finding]:
    """Looks at the device. `root` is `/`, or a directory with another machine's /proc and /sys."""
    yield _cores()
    yield memory(psutil.virtual_memory().total, _cgroup_limit(root))
    yield available(psutil.virtual_memory().available)
    yield instructions(root)


def memory(total_bytes: int, limit_bytes: int | None) -> Finding:
    """Judges the memory this process may use."""
    usable = total_bytes if limit_bytes is None else min(total_bytes, limit_bytes)
    text = f"{usable / _GB:.1f} GB"
    if limit_bytes is not None and limit_bytes < total_bytes:
        text += " (the control group's limit)"
    if usable < _VISIBLE_SHARE * MIN_MEMORY_GB * _GB:
        wanted = f"at least {MIN_MEMORY_GB} GB are needed"
        return Finding("memory", Level.PROBLEM, f"{text}: {wanted}")
    if usable < _VISIBLE_SHARE * RECOMMENDED_MEMORY_GB * _GB:
        wanted = f"{RECOMMENDED_MEMORY_GB} GB or more are recommended"
        return Finding("memory", Level.WARNING, f"{text}: {wanted}")
    return Finding("memory", Level.OK, text)


def available(available_bytes: int) -> Finding:
    """Judges the memory that is free right now."""
    text = f"{available_bytes / _GB:.1f} GB"
    if available_bytes < _MIN_AVAILABLE_BYTES:
        return Finding("free memory", Level.WARNING, f"{text}: close other programs first")
    return Finding("free memory", Level.OK, text)


def instructions(root: Path) -> Finding:
    """Says which instructions of use the processor has."""
    name = "instructions"
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Finding(name, Level.UNKNOWN, "/proc/cpuinfo cannot be read")
    flags: set[str] = set()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            flags.update(value.split())
    fast = [flag for flag in _FAST_FLAGS if flag in flags]
    if not fast:
        return Finding(
            name, Level.WARNING, f"{platform.machine()}: none that help, it will be slow"
        )
    return Finding(name, Level.OK, f"{platform.machine()}: {', '.join(fast)}")


def _cores() -> Finding:
    num_cores = len(os.sched_getaffinity(0))
    if num_cores < 2:
        return Finding("cores", Level.WARNING, "1: two or more are recommended")
    return Finding("cores", Level.OK, str(num_cores))


def _cgroup_limit(root: Path) -> int | None:
    """The memory limit of our control group (version 2), None when there is none."""
    try:
        text = (root / "sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        return int(text)
    except (OSError, ValueError):
        return None
