"""Turns readings into pressure levels that do not flap.

Each level of a dimension is a latch of its own. It closes at once when the severity reaches the
threshold, and opens only after the severity has stayed a band below it for the whole dwell time.
The level is that of the highest closed latch. It follows that inside the band nothing changes,
that a worse reading never gives a lower level, and that a calm device is NORMAL after one dwell.

Without a reading the level is UNKNOWN; the latches stay as they are, because not knowing is not
calm.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from services.monitor.sample import BatteryState, DeviceSample, ThermalZone


class PressureLevel(enum.IntEnum):
    """How bad one dimension is. The numbers are those of the proto."""

    UNKNOWN = 1
    NORMAL = 2
    ELEVATED = 3
    CRITICAL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When a dimension is ELEVATED and CRITICAL, in its own unit; higher is worse."""

    elevated: float
    critical: float
    band: float
    """How far below a threshold the severity must fall before the level may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureThresholds:
    """The thresholds of all dimensions."""

    temperature: Thresholds
    """Degrees Celsius of the hottest processor zone."""
    memory: Thresholds
    """Share in use, 0 to 1."""
    battery: Thresholds
    """Charge with its sign turned, -1 to 0, so that higher is worse here too."""
    dwell_s: float
    """How long it must be calm before a level falls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """The level of each dimension."""

    temperature: PressureLevel = PressureLevel.UNKNOWN
    memory: PressureLevel = PressureLevel.UNKNOWN
    battery: PressureLevel = PressureLevel.UNKNOWN


class _Latch:
    def __init__(self, threshold: float, band: float, dwell_s: float) -> None:
        self._closes_at = threshold
        self._calm_below = threshold - band
        self._dwell_s = dwell_s
        self._calm_since_s: float | None = None
        self.is_closed = False

    def update(self, severity: float | None, now_s: float) -> None:
        if severity is None or severity >= self._calm_below:
            self._calm_since_s = None
            self.is_closed |= severity is not None and severity >= self._closes_at
            return
        if self._calm_since_s is None:
            self._calm_since_s = now_s
        if now_s >= self._calm_since_s + self._dwell_s:
            self.is_closed = False


class DimensionPressure:
    """The level of one dimension over time."""

    def __init__(self, thresholds: Thresholds, dwell_s: float) -> None:
        self._latches = {
            PressureLevel.CRITICAL: _Latch(thresholds.critical, thresholds.band, dwell_s),
            PressureLevel.ELEVATED: _Latch(thresholds.elevated, thresholds.band, dwell_s),
        }

    def update(self, severity: float | None, now_s: float) -> PressureLevel:
        """Takes the next reading, None for unknown, and returns the level."""
        for latch in self._latches.values():
            latch.update(severity, now_s)
        if severity is None:
            return PressureLevel.UNKNOWN
        closed = [level for level, latch in self._latches.items() if latch.is_closed]
        return closed[0] if closed else PressureLevel.NORMAL


class DevicePressure:
    """The levels of all dimensions over time."""

    def __init__(self, thresholds: PressureThresholds) -> None:
        self._thresholds = thresholds
        dwell_s = thresholds.dwell_s
        self._temperature = DimensionPressure(thresholds.temperature, dwell_s)
        self._memory = DimensionPressure(thresholds.memory, dwell_s)
        self._battery = DimensionPressure(thresholds.battery, dwell_s)

    def update(self, sample: DeviceSample, now_s: float) -> Pressure:
        """Takes the next sample and returns the levels."""
        return Pressure(
            temperature=self._temperature.update(
                temperature_severity(sample.processor_zones, self._thresholds.temperature), now_s
            ),
            memory=self._memory.update(sample.memory_used_share, now_s),
            battery=self._battery.update(battery_severity(sample, self._thresholds.battery), now_s),
        )


def temperature_severity(zones: Sequence[ThermalZone], thresholds: Thresholds) -> float | None:
    """Returns the hottest temperature; a zone at its own emergency trip counts as critical."""
    severities = [
        max(zone.temperature_celsius, thresholds.critical)
        if zone.trip_celsius is not None and zone.temperature_celsius >= zone.trip_celsius
        else zone.temperature_celsius
        for zone in zones
    ]
    return max(severities, default=None)


def battery_severity(sample: DeviceSample, thresholds: Thresholds) -> float | None:
    """Returns the turned charge while it falls, and that of a full battery while it does not.

    A device known to have no battery runs on mains. With an unknown state a good charge is good
    whichever way it goes, and a low one is unknown.
    """
    at_full = -1.0
    if sample.has_battery is False:
        return at_full
    charge = sample.battery_charge
    if sample.battery_state in (
        BatteryState.CHARGING,
        BatteryState.FULL,
        BatteryState.NOT_CHARGING,
    ):
        return at_full
    if charge is None:
        return None
    if sample.battery_state is BatteryState.DISCHARGING or -charge < thresholds.elevated:
        return -charge
    return None
