"""What a process of this machine takes."""

from __future__ import annotations

from pathlib import Path

import psutil

MB = 10**6


def memory_mb(process: psutil.Process, kind: str) -> float:
    """Megabytes by smaps_rollup; `kind` is Rss, or Pss: shared pages divided by their users."""
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith(f"{kind}:"))
    return int(line.split()[1]) * 1024 / MB


def processor_s(process: psutil.Process) -> float:
    """Seconds its threads have run, to the nanosecond."""
    files = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9
