"""The state of the device as the monitor tells it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from edgelora.v1 import monitor_service_pb2 as pb


class PressureLevel(enum.IntEnum):
    """How bad one dimension is. The numbers are those of the proto."""

    UNKNOWN = 1
    NORMAL = 2
    ELEVATED = 3
    CRITICAL = 4


_LEVELS = frozenset(level.value for level in PressureLevel)
_LARGEST_READING = 1000.0
"""Far above every unit's range, small enough for a sentence."""


class Dimension(enum.StrEnum):
    """What the monitor watches. The values are the names of the proto's fields."""

    TEMPERATURE = "temperature"
    MEMORY = "memory"
    BATTERY = "battery"


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionState:
    """One dimension."""

    level: PressureLevel
    since_s: float
    """Boot clock at which it came to this level."""
    reading: float | None = None
    """Degrees Celsius, share of memory in use, or charge; None when nothing can be read."""
    sensor: str = ""
    """What gave the reading."""
    known_level: PressureLevel | None = None
    """While unknown: the level it had when it was last known; None when it never was."""

    def after(self, earlier: DimensionState) -> DimensionState:
        """Returns this state, with what was known before where this one is unknown."""
        if self.level is not PressureLevel.UNKNOWN:
            return self
        was_known = earlier.level is not PressureLevel.UNKNOWN
        return replace(self, known_level=earlier.level if was_known else earlier.known_level)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """All dimensions."""

    temperature: DimensionState
    memory: DimensionState
    battery: DimensionState

    @classmethod
    def unknown(cls, since_s: float) -> DeviceState:
        """The state while the monitor says nothing."""
        unknown = DimensionState(level=PressureLevel.UNKNOWN, since_s=since_s)
        return cls(temperature=unknown, memory=unknown, battery=unknown)

    @classmethod
    def from_message(cls, pressure: pb.DevicePressure, now_s: float) -> DeviceState:
        """Reads the monitor's message; whatever is missing or strange in it is unknown."""
        return cls(
            temperature=_dimension(pressure.temperature, now_s),
            memory=_dimension(pressure.memory, now_s),
            battery=_dimension(pressure.battery, now_s),
        )

    def after(self, earlier: DeviceState) -> DeviceState:
        """Returns this state, with what was known before where a dimension is unknown."""
        return DeviceState(**{each.value: self[each].after(earlier[each]) for each in Dimension})

    def __getitem__(self, dimension: Dimension) -> DimensionState:
        state: DimensionState = getattr(self, dimension.value)
        return state


def _dimension(message: pb.DimensionPressure, now_s: float) -> DimensionState:
    level = int(message.level)
    has_reading = message.HasField("reading") and abs(message.reading) <= _LARGEST_READING
    # Nothing has held since before the boot, and nothing begins tomorrow.
    held_s = min(max(0.0, message.held.ToNanoseconds() / 1e9), now_s)
    return DimensionState(
        level=PressureLevel(level) if level in _LEVELS else PressureLevel.UNKNOWN,
        since_s=now_s - held_s,
        reading=message.reading if has_reading else None,
        sensor=message.sensor,
    )
