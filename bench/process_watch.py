"""The processes of a node while it works: whether they are still the same, and what they hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

_MIB = 2**20
_HOUR_S = 3600.0
_MIN_SLOPE_S = 60.0
"""A slope over less says nothing of the next hour."""


@dataclass(slots=True)
class ProcessWatch:
    """What was seen of the processes of a directory of `<service>.pid` files."""

    started: Mapping[str, int]
    """Service -> process, as it was when the watch began."""
    changed: set[str] = field(default_factory=set)
    """Services that have had another process since, or none."""
    samples: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    """(seconds of the monotonic clock, service -> resident bytes)."""

    def look(self, directory: Path) -> None:
        """Takes a sample."""
        running = read_pids(directory)
        self.changed |= {name for name, pid in self.started.items() if running.get(name) != pid}
        resident: dict[str, int] = {}
        for name, pid in running.items():
            try:
                resident[name] = psutil.Process(pid).memory_info().rss
            except psutil.Error:
                self.changed.add(name)
        self.samples.append((time.monotonic(), resident))

    def memory(self) -> list[dict[str, Any]]:
        """A row for each service and their sum: resident MiB at the end, and its slope.

        The slope is that of the second half, a straight line through its samples (least squares).
        """
        rows = []
        for name in [*self.started, "all"]:
            series = [
                (at_s, sum(resident.values()) if name == "all" else resident[name])
                for at_s, resident in self.samples
                if name in resident or name == "all"
            ]
            if series:
                slope = slope_mib_per_h(series[len(series) // 2 :])
                rows.append(
                    {
                        "process": name,
                        "resident_mib": round(series[-1][1] / _MIB, 1),
                        "growth_mib": round((series[-1][1] - series[0][1]) / _MIB, 1),
                        "slope_mib_per_h": None if slope is None else round(slope, 2),
                    }
                )
        return rows


@asynccontextmanager
async def process_watch(directory: Path, period_s: float) -> AsyncIterator[ProcessWatch]:
    """Looks at the processes at the start, every `period_s`, and at the end."""
    watch = ProcessWatch(read_pids(directory))
    watch.look(directory)

    async def look_again() -> None:
        while True:
            await asyncio.sleep(period_s)
            watch.look(directory)

    looking = asyncio.create_task(look_again())
    try:
        yield watch
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        watch.look(directory)


def read_pids(directory: Path) -> dict[str, int]:
    """Service -> process, by its pid file."""
    pids = {}
    for file in sorted(directory.glob("*.pid")):
        with suppress(OSError, ValueError):  # just being written or removed
            pids[file.stem] = int(file.read_text(encoding="ascii"))
    return pids


def slope_mib_per_h(series: Sequence[tuple[float, int]]) -> float | None:
    """Slope of a straight line through (seconds, bytes), in MiB an hour; None of under a minute."""
    times_s = np.array([at_s for at_s, _ in series])
    if not series or np.ptp(times_s) < _MIN_SLOPE_S:
        return None
    values = np.array([value for _, value in series], dtype=np.float64)
    centred = times_s - times_s.mean()
    slope = float((centred * (values - values.mean())).sum() / (centred**2).sum())
    return slope * _HOUR_S / _MIB
