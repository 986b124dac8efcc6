"""Turns readings into pressure levels that do not flap.

Each level of a source is a latch of its own. It closes at once when a reading reaches the
threshold, and opens only after the readings have stayed a band away from it for the whole dwell
time. The level is that of the highest closed latch. It follows that inside the band nothing
changes, that a worse reading never gives a lower level, and that a calm device is NORMAL after one
dwell.

Without a reading the level is UNKNOWN; the latches stay as they are, because not knowing is not
calm.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class PressureLevel(enum.IntEnum):
    """How bad one dimension is. The numbers are those of the proto."""

    UNKNOWN = 1
    NORMAL = 2
    ELEVATED = 3
    CRITICAL = 4

    @property
    def severity(self) -> int:
        """Orders levels of sources that are taken together, higher is worse: not knowing is worse
        than NORMAL, and what is known to be bad counts whatever else is unknown."""
        return _SEVERITIES[self]


_SEVERITIES = {
    PressureLevel.NORMAL: 0,
    PressureLevel.UNKNOWN: 1,
    PressureLevel.ELEVATED: 2,
    PressureLevel.CRITICAL: 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When a source is ELEVATED and CRITICAL, in its own unit."""

    elevated: float
    critical: float
    band: float
    """How far from a threshold a reading must be before the level may fall."""
    dwell_s: float
    """How long it must be calm before a level falls."""
    is_low_bad: bool = False
    """Whether a threshold is reached by falling short of it, as a battery's; else by reaching it
    from below."""

    def of(self, level: PressureLevel) -> float | None:
        """The threshold of ELEVATED or CRITICAL; None for the other levels."""
        return {PressureLevel.ELEVATED: self.elevated, PressureLevel.CRITICAL: self.critical}.get(
            level
        )

    def is_reached(self, value: float, threshold: float) -> bool:
        """Whether a reading closes the latch of a threshold."""
        return value < threshold if self.is_low_bad else value >= threshold

    def calm_bound(self, threshold: float) -> float:
        """Where the band of a threshold ends: beyond it a reading is calm."""
        return threshold + self.band if self.is_low_bad else threshold - self.band

    def is_calm(self, value: float, threshold: float) -> bool:
        """Whether a reading lets the latch of a threshold open in time."""
        bound = self.calm_bound(threshold)
        return value >= bound if self.is_low_bad else value < bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one source says about one dimension."""

    sensor: str
    """What gave it, for example coretemp_package_id_0."""
    judged: float | None
    """What is held against the thresholds; None when what was measured does not tell enough."""
    shown: float | None
    """What was measured. A battery that charges is judged as a full one. None when there is
    nothing to measure: no battery."""
    detail: str = ""
    """What else it says, for people: `charging`."""


class _Latch:
    def __init__(self, thresholds: Thresholds, threshold: float) -> None:
        self._thresholds = thresholds
        self._threshold = threshold
        self._calm_since_s: float | None = None
        self.is_closed = False

    def update(self, value: float | None, now_s: float) -> None:
        if value is None or not self._thresholds.is_calm(value, self._threshold):
            self._calm_since_s = None
            self.is_closed |= value is not None and self._thresholds.is_reached(
                value, self._threshold
            )
            return
        if self._calm_since_s is None:
            self._calm_since_s = now_s
        if now_s >= self._calm_since_s + self._thresholds.dwell_s:
            self.is_closed = False


class SourcePressure:
    """The level of one source in one dimension over time."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._latches = {
            PressureLevel.CRITICAL: _Latch(thresholds, thresholds.critical),
            PressureLevel.ELEVATED: _Latch(thresholds, thresholds.elevated),
        }
        self.thresholds = thresholds
        self.level = PressureLevel.UNKNOWN
        self.reading: Reading | None = None
        """The newest; None when nothing can be read now."""
        self.last_sensor = ""
        """What gave the last reading there was; empty before the first."""

    def update(self, reading: Reading | None, now_s: float) -> None:
        """Takes the next reading, None for unknown."""
        value = None if reading is None else reading.judged
        for latch in self._latches.values():
            latch.update(value, now_s)
        self.reading = reading
        if reading is not None:
            self.last_sensor = reading.sensor
        if value is None:
            self.level = PressureLevel.UNKNOWN
            return
        closed = [level for level, latch in self._latches.items() if latch.is_closed]
        self.level = closed[0] if closed else PressureLevel.NORMAL
