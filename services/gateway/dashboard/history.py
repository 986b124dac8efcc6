"""The last ten minutes, a point for each look. Pure: times are passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

_WINDOW_S = 600.0
_MAX_POINTS = 620

Point = Mapping[str, Any]
"""What the charts draw of one look, ready for JSON."""


class History:
    """Bounded in age and in number."""

    def __init__(self, *, window_s: float = _WINDOW_S, max_points: int = _MAX_POINTS) -> None:
        self._window_s = window_s
        self._points: deque[tuple[float, Point]] = deque(maxlen=max_points)

    def add(self, at_s: float, point: Point) -> None:
        """Adds the newest point and drops those that are too old."""
        self._points.append((at_s, point))
        while self._points[0][0] < at_s - self._window_s:
            self._points.popleft()

    def points(self) -> Sequence[Point]:
        """Oldest first."""
        return [point for _, point in self._points]
