"""One dimension of the pressure: its level, since when, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.monitor.pressure import PressureLevel, Reading, SourcePressure, Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionState:
    """The level of one dimension and the source that holds it."""

    level: PressureLevel = PressureLevel.UNKNOWN
    since_s: float = 0.0
    """When it came to this level, on the monitor's clock."""
    reading: Reading | None = None
    thresholds: Thresholds | None = None
    """Those of the source; None when there is none."""
    last_sensor: str = ""
    """What fell silent at UNKNOWN; empty when nothing was ever read."""

    @property
    def threshold(self) -> float | None:
        """What holds the level; None at NORMAL and UNKNOWN."""
        return self.thresholds.of(self.level) if self.thresholds else None

    @property
    def sensor(self) -> str:
        """What gave the reading, or fell silent; empty when nothing was ever read."""
        return self.reading.sensor if self.reading else self.last_sensor


class Dimension:
    """Takes the worst of a dimension's sources, and remembers since when its level holds."""

    def __init__(self, now_s: float) -> None:
        self.state = DimensionState(since_s=now_s)

    def update(self, sources: Sequence[SourcePressure], now_s: float) -> None:
        """Judges the sources as they are now; of equally bad ones the first counts."""
        worst = max(sources, key=lambda source: source.level.severity, default=None)
        level = worst.level if worst else PressureLevel.UNKNOWN
        self.state = DimensionState(
            level=level,
            since_s=self.state.since_s if level is self.state.level else now_s,
            reading=worst.reading if worst else None,
            thresholds=worst.thresholds if worst else None,
            last_sensor=worst.last_sensor if worst else "",
        )
