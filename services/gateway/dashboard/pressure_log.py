"""Every change of the device's pressure, and why. Pure: the clock is passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from edgelora.v1.monitor_service_pb2 import DevicePressure, DimensionPressure, PressureLevel

DIMENSIONS = ("temperature", "memory", "battery")
_MAX_CHANGES = 100
_SILENT = DimensionPressure(
    level=PressureLevel.PRESSURE_LEVEL_UNKNOWN, explanation="the monitor does not answer"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureChange:
    """One dimension reached a level."""

    at_unix_s: float
    dimension: str
    level: int
    """A PressureLevel."""
    explanation: str


def dimension_pressures(pressure: DevicePressure | None) -> dict[str, DimensionPressure]:
    """Dimension -> its state; unknown when the monitor does not answer."""
    return {name: getattr(pressure, name) if pressure else _SILENT for name in DIMENSIONS}


class PressureLog:
    """The newest 100 changes."""

    def __init__(self, max_changes: int = _MAX_CHANGES) -> None:
        self._changes: deque[PressureChange] = deque(maxlen=max_changes)
        self._levels: dict[str, int] = {}

    def add(self, now_unix_s: float, pressure: DevicePressure | None) -> None:
        """Compares with the last state. The first one that is known is a change too."""
        if pressure is None and not self._levels:
            return
        for name, dimension in dimension_pressures(pressure).items():
            if self._levels.get(name) != dimension.level:
                self._levels[name] = dimension.level
                # The monitor may be older than what was last known of it.
                held_s = dimension.held.ToMicroseconds() / 1e6
                last_s = self._changes[-1].at_unix_s if self._changes else 0.0
                self._changes.append(
                    PressureChange(
                        at_unix_s=max(last_s, now_unix_s - held_s),
                        dimension=name,
                        level=dimension.level,
                        explanation=dimension.explanation,
                    )
                )

    def newest_first(self) -> Sequence[PressureChange]:
        """All of them."""
        return tuple(reversed(self._changes))
