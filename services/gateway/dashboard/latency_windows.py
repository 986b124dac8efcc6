"""How long people waited, over the last minutes, by class. Pure: the clock is passed in."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.gateway.ended_generation import EndedGeneration

_WINDOW_S = 600.0
_MAX_VALUES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Nearest-rank percentiles, in seconds."""

    num_values: int
    p50: float
    p95: float
    p99: float


class LatencyWindow:
    """The newest values of one measure: at most 512, none older than ten minutes."""

    def __init__(self, *, window_s: float = _WINDOW_S, max_values: int = _MAX_VALUES) -> None:
        self._window_s = window_s
        self._values: deque[tuple[float, float]] = deque(maxlen=max_values)

    def add(self, at_s: float, value: float) -> None:
        """Adds one value."""
        self._values.append((at_s, value))

    def percentiles(self, now_s: float) -> Percentiles | None:
        """Those of the values that are young enough; None when there are none."""
        while self._values and self._values[0][0] < now_s - self._window_s:
            self._values.popleft()
        if not self._values:
            return None
        ordered = sorted(value for _, value in self._values)
        return Percentiles(
            num_values=len(ordered),
            p50=_nearest_rank(ordered, 0.50),
            p95=_nearest_rank(ordered, 0.95),
            p99=_nearest_rank(ordered, 0.99),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLatency:
    """Both measures of one class; None where nothing was measured lately."""

    time_to_first_token: Percentiles | None
    time_per_output_token: Percentiles | None


class LatencyWindows:
    """Time to the first token, and for each later one, of every priority class."""

    def __init__(self) -> None:
        self._first: dict[int, LatencyWindow] = {}
        self._later: dict[int, LatencyWindow] = {}

    def add(self, at_s: float, ended: EndedGeneration) -> None:
        """Takes what an ended generation tells; a refused one tells nothing."""
        if ended.time_to_first_token_s is not None:
            window = self._first.setdefault(ended.priority, LatencyWindow())
            window.add(at_s, ended.time_to_first_token_s)
        if ended.time_per_output_token_s is not None:
            window = self._later.setdefault(ended.priority, LatencyWindow())
            window.add(at_s, ended.time_per_output_token_s)

    def by_class(self, now_s: float) -> Mapping[int, ClassLatency]:
        """PriorityClass -> its latencies."""
        return {
            priority: ClassLatency(
                time_to_first_token=_of(self._first.get(priority), now_s),
                time_per_output_token=_of(self._later.get(priority), now_s),
            )
            for priority in self._first.keys() | self._later.keys()
        }


def _of(window: LatencyWindow | None, now_s: float) -> Percentiles | None:
    return window.percentiles(now_s) if window else None


def _nearest_rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
