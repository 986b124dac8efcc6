"""Turns what was measured into readings that can be judged, one for each dimension and source."""

from __future__ import annotations

from collections.abc import Mapping

from services.monitor.pressure import Reading, Thresholds
from services.monitor.probes.termux import SENSOR as TERMUX_SENSOR
from services.monitor.sample import BatteryState, DeviceSample, ReportedReadings, ThermalZone

_MAINS, _MEMORY, _STALL, _BATTERY = "mains", "memory_used", "memory_stall", "battery"
OWN_SENSORS = frozenset({_MAINS, _MEMORY, _STALL, _BATTERY, TERMUX_SENSOR})
"""Names of what the device itself tells, beside its temperatures."""
_FULL = 1.0
_RESTING = {
    BatteryState.CHARGING: "charging",
    BatteryState.FULL: "full",
    BatteryState.NOT_CHARGING: "plugged in, not charging",
}


def temperature(
    sample: DeviceSample, thresholds: Thresholds, *, is_processor_lost: bool = False
) -> Reading | None:
    """The worst zone that counts; one at its own emergency trip point is judged as critical.

    Where the processor's sensor is lost, the others tell of heat, and of nothing else.
    """

    def judged(zone: ThermalZone) -> float:
        celsius = zone.temperature_celsius
        return max(celsius, thresholds.critical) if _is_tripped(zone) else celsius

    worst = max(sample.processor_zones, key=judged, default=None)
    if worst is None:
        return None
    is_calm = not thresholds.is_reached(judged(worst), thresholds.elevated)
    if is_processor_lost and is_calm:
        detail = "and the processor's sensor gives no reading any more"
    else:
        detail = "at the hardware's own emergency limit" if _is_tripped(worst) else ""
    return Reading(
        sensor=worst.name,
        judged=None if is_processor_lost and is_calm else judged(worst),
        shown=worst.temperature_celsius,
        detail=detail,
    )


def memory(sample: DeviceSample) -> Reading | None:
    """The share in use."""
    share = sample.memory_used_share
    return None if share is None else Reading(sensor=_MEMORY, judged=share, shown=share)


def memory_stall(sample: DeviceSample) -> Reading | None:
    """The share of time in which some task waited for memory."""
    share = sample.memory_stall
    return None if share is None else Reading(sensor=_STALL, judged=share, shown=share)


def battery(sample: DeviceSample, thresholds: Thresholds) -> Reading | None:
    """The device's own battery; one that is known to have none runs on mains."""
    if sample.has_battery is False:
        return Reading(sensor=_MAINS, judged=_FULL, shown=None, detail="there is no battery")
    return _battery(
        sample.battery_sensor or "battery", sample.battery_charge, sample.battery_state, thresholds
    )


def reported_temperature(source: str, temperatures: Mapping[str, float]) -> Reading | None:
    """The hottest of those that count."""
    name = max(temperatures, key=lambda name: temperatures[name], default=None)
    if name is None:
        return None
    celsius = temperatures[name]
    return Reading(sensor=f"{source}/{name}", judged=celsius, shown=celsius)


def reported_battery(
    source: str, readings: ReportedReadings, thresholds: Thresholds
) -> Reading | None:
    """The source's battery."""
    return _battery(source, readings.battery_charge, readings.battery_state, thresholds)


def _battery(
    sensor: str, charge: float | None, state: BatteryState | None, thresholds: Thresholds
) -> Reading | None:
    """Judges the charge while it falls, and as that of a full battery while it does not.

    With an unknown state a good charge is good whichever way it goes, and a low one is unknown.
    """
    if state in _RESTING:
        return Reading(sensor=sensor, judged=_FULL, shown=charge, detail=_RESTING[state])
    if charge is None:
        return None
    if state is BatteryState.DISCHARGING:
        return Reading(sensor=sensor, judged=charge, shown=charge, detail="discharging")
    is_low = thresholds.is_reached(charge, thresholds.elevated)
    return Reading(
        sensor=sensor,
        judged=None if is_low else charge,
        shown=charge,
        detail="and it does not say whether it discharges" if is_low else "",
    )


def _is_tripped(zone: ThermalZone) -> bool:
    return zone.trip_celsius is not None and zone.temperature_celsius >= zone.trip_celsius
