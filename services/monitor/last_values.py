"""Bridges short gaps: a value that is missing once keeps its last reading, then is unknown."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from services.monitor.sample import DeviceSample, ThermalZone

_LISTS = {"thermal_zones", "processes", "gpus"}
_SCALARS = tuple(field.name for field in fields(DeviceSample) if field.name not in _LISTS)


class LastValues:
    """The newest reading of each value, for at most `hold_s` after it was read."""

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._scalars: dict[str, tuple[Any, float]] = {}
        self._zones: dict[str, tuple[ThermalZone, float]] = {}
        self._newest = DeviceSample()
        self.sampled_at_s: float | None = None
        """When the newest sample was taken; None before the first."""

    def update(self, sample: DeviceSample, now_s: float) -> None:
        """Takes over what a sample could read."""
        for name in _SCALARS:
            value = getattr(sample, name)
            if value is not None:
                self._scalars[name] = (value, now_s)
        for zone in sample.thermal_zones:
            self._zones[zone.sensor] = (zone, now_s)
        self._newest = sample
        self.sampled_at_s = now_s

    def at(self, now_s: float) -> DeviceSample:
        """Returns what is known now; what is older than `hold_s` is unknown."""
        self._zones = {
            sensor: held for sensor, held in self._zones.items() if self._holds(held[1], now_s)
        }
        scalars = {
            name: value for name, (value, at_s) in self._scalars.items() if self._holds(at_s, now_s)
        }
        is_fresh = self.sampled_at_s is not None and self._holds(self.sampled_at_s, now_s)
        return DeviceSample(
            thermal_zones=[zone for zone, _ in self._zones.values()],
            processes=self._newest.processes if is_fresh else (),
            gpus=self._newest.gpus if is_fresh else (),
            **scalars,
        )

    def _holds(self, at_s: float, now_s: float) -> bool:
        return now_s <= at_s + self._hold_s
