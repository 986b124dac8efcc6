"""Whether a process's memory grows steadily, which is what a leak looks like. Pure.

RSS is noisy: it jumps when something is loaded, and falls when the allocator gives pages back. A
leak is what is left after all of that. The readings of the window, thinned to `_NUM_POINTS` (each
the lowest of its time), are cut into `_NUM_PARTS` parts, and the floor of each part is looked at:

* noise and a sawtooth that falls at least every half window keep the floors where they are, or
  make one fall;
* a step raises them once, two steps twice;
* a leak raises nearly every one of them by its share and lets none fall, in all by more than
  `_LEAST_SPREADS` times what memory varies within a part. Of 200,000 windows of mere noise none
  looked like that. Less than `_LEAST_SHARE` of an even share is the noise beside a step.

The rate is the median of the slopes between all pairs of points (Theil 1950, Sen 1968): up to 29 %
of them may be anything. What comes in the first third of a window after a process was first seen
is its warm-up and does not count.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from services.monitor.sample import ProcessUse

_NUM_POINTS = 60
_NUM_PARTS = 6
_LEAST_RISES = 4
_LEAST_SHARE = 0.5
_LEAST_SPREADS = 1.5
_WARM_UP_SHARE = 1 / 3
_HOUR_S = 3600.0
_LEAST_BYTES_PER_HOUR = 2**20
"""Slower growth is not told from the allocator's own steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How the memory of one process changed over the window."""

    bytes_per_hour: float
    is_steady: bool
    """Whether it looks like a leak."""


class MemoryGrowth:
    """The thinned readings of every process that lives."""

    def __init__(self, window_s: float) -> None:
        """`window_s`: how long growth must last."""
        self._window_s = window_s
        self._histories: dict[str, _History] = {}

    def judged(self, uses: Sequence[ProcessUse], now_s: float) -> list[ProcessUse]:
        """Takes the newest readings; returns them with what is known of their growth."""
        histories = {use.service: self._of(use, now_s) for use in uses}
        self._histories = histories
        return [_with_growth(use, histories[use.service].take(use, now_s)) for use in uses]

    def _of(self, use: ProcessUse, now_s: float) -> _History:
        known = self._histories.get(use.service)
        if known is None or known.pid != use.pid:
            return _History(use.pid, self._window_s, now_s)
        return known


class _History:
    def __init__(self, pid: int, window_s: float, now_s: float) -> None:
        self.pid = pid
        self._spacing_s = window_s / _NUM_POINTS
        self._begun_s = now_s + window_s * _WARM_UP_SHARE
        self._points: deque[tuple[float, int]] = deque(maxlen=_NUM_POINTS)
        self._lowest: int | None = None
        self._growth: Growth | None = None

    def take(self, use: ProcessUse, now_s: float) -> Growth | None:
        """None until a whole window was seen."""
        if now_s < self._begun_s:
            return None
        self._lowest = min(use.rss_bytes, use.rss_bytes if self._lowest is None else self._lowest)
        if now_s >= self._begun_s + self._spacing_s:
            self._points.append((now_s, self._lowest))
            # A monitor that was suspended does not make up for what it missed.
            self._begun_s, self._lowest = now_s, None
            if len(self._points) == _NUM_POINTS:
                self._growth = measure_growth(self._points)
        return self._growth


def measure_growth(points: Sequence[tuple[float, int]]) -> Growth:
    """Judges `_NUM_POINTS` pairs of seconds, ascending, and bytes."""
    bytes_per_hour = _HOUR_S * statistics.median(
        (late - early) / (late_s - early_s)
        for (early_s, early), (late_s, late) in combinations(points, 2)
    )
    return Growth(
        bytes_per_hour=bytes_per_hour,
        is_steady=bytes_per_hour >= _LEAST_BYTES_PER_HOUR and _rises_steadily(points),
    )


def _rises_steadily(points: Sequence[tuple[float, int]]) -> bool:
    sizes = [size for _, size in points]
    length = len(sizes) // _NUM_PARTS
    parts = [sizes[start : start + length] for start in range(0, len(sizes), length)]
    floors = [min(part) for part in parts]
    rises = [late - early for early, late in pairwise(floors)]
    spread = statistics.median(max(part) - min(part) for part in parts)
    least_rise = _LEAST_SHARE * statistics.mean(rises)
    return (
        min(rises) >= 0
        and floors[-1] - floors[0] > _LEAST_SPREADS * spread
        and sum(rise >= least_rise for rise in rises) >= _LEAST_RISES
    )


def _with_growth(use: ProcessUse, growth: Growth | None) -> ProcessUse:
    if growth is None:
        return use
    return replace(use, growth_bytes_per_hour=growth.bytes_per_hour, is_growing=growth.is_steady)
