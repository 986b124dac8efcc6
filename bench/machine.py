"""Describes the machine, the software and the commit a figure was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import psutil

_ISA_FLAGS = (
    # What the matrix kernels can use, x86-64 and AArch64.
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni"),
    *("avx512_bf16", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "asimdhp", "i8mm"),
    *("bf16", "sve", "sve2"),
)


def describe_machine(proc: Path = Path("/proc")) -> dict[str, Any]:
    """Returns processor, cores, memory (bytes), instruction sets, Python and torch versions."""
    cpuinfo = (proc / "cpuinfo").read_text(encoding="utf-8", errors="replace")
    return {
        "cpu": _cpu_model(cpuinfo),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "isa_flags": _isa_flags(cpuinfo),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def current_commit(directory: Path = Path(__file__).parent) -> str | None:
    """Returns the commit of the checkout, with `+changes` when files differ; None outside one."""
    commit = _git(directory, "rev-parse", "HEAD")
    if commit is None:
        return None
    return commit + ("+changes" if _git(directory, "status", "--porcelain", "-uno") else "")


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _cpu_model(cpuinfo: str) -> str:
    match = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or "unknown"


def _isa_flags(cpuinfo: str) -> list[str]:
    match = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    present = set(match[1].split()) if match else set()
    return [flag for flag in _ISA_FLAGS if flag in present]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
