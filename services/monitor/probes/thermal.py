"""Temperatures from the kernel's thermal zones and hardware monitors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from services.chassis.device_report import HIGH_CELSIUS, LOW_CELSIUS
from services.monitor.probes.sensor_files import SensorFiles
from services.monitor.sample import ThermalZone, ZoneRole

_ZONES = "sys/class/thermal"
_MONITORS = "sys/class/hwmon"
_MILLI = 1000.0
_EMERGENCY_TRIPS = {"hot", "critical"}


class ThermalProbe:
    """Reads every sensor and tells which ones measure the processor, by name.

    `processor_names` and `fallback_names` are patterns (`*` and `?`) over normalised names, so
    `cpu*` covers both `cpu-thermal` and `cpu_thermal`. A zone without a readable type is called
    after its directory, for example `thermal_zone1`.
    """

    def __init__(
        self, files: SensorFiles, processor_names: Sequence[str], fallback_names: Sequence[str]
    ) -> None:
        self._files = files
        self._patterns = {
            ZoneRole.PROCESSOR: [normalise(name) for name in processor_names],
            ZoneRole.FALLBACK: [normalise(name) for name in fallback_names],
        }

    def read(self) -> list[ThermalZone]:
        """Returns the sensors that gave a plausible temperature."""
        return [*self._read_zones(), *self._read_monitors()]

    def zone(self, sensor: str, name: str, celsius: float) -> ThermalZone:
        """A temperature that another probe has read, counted by its name like any other."""
        return self._zone(sensor, normalise(name), celsius, None)

    def _read_zones(self) -> Iterator[ThermalZone]:
        for entry in self._files.names(_ZONES, "thermal_zone*") or []:
            directory = f"{_ZONES}/{entry}"
            name = normalise(self._files.text(f"{directory}/type") or entry)
            sensor = f"{directory}/temp"
            celsius = self._celsius(sensor)
            if celsius is not None:
                yield self._zone(sensor, name, celsius, self._zone_trip(directory))

    def _read_monitors(self) -> Iterator[ThermalZone]:
        for entry in self._files.names(_MONITORS, "hwmon*") or []:
            directory = f"{_MONITORS}/{entry}"
            chip = self._files.text(f"{directory}/name") or entry
            for file in self._files.names(directory, "temp*_input") or []:
                prefix = f"{directory}/{file.removesuffix('_input')}"
                label = self._files.text(f"{prefix}_label") or ""
                celsius = self._celsius(f"{directory}/{file}")
                if celsius is not None:
                    trip = self._celsius(f"{prefix}_crit")
                    name = normalise(f"{chip} {label}")
                    yield self._zone(f"{directory}/{file}", name, celsius, trip)

    def _zone_trip(self, directory: str) -> float | None:
        trips = []
        for file in self._files.names(directory, "trip_point_*_type") or []:
            if self._files.text(f"{directory}/{file}") in _EMERGENCY_TRIPS:
                trips.append(self._celsius(f"{directory}/{file.removesuffix('_type')}_temp"))
        return min((trip for trip in trips if trip is not None), default=None)

    def _celsius(self, sensor: str) -> float | None:
        milli_celsius = self._files.number(
            sensor, low=LOW_CELSIUS * _MILLI, high=HIGH_CELSIUS * _MILLI
        )
        return None if milli_celsius is None else milli_celsius / _MILLI

    def _zone(self, sensor: str, name: str, celsius: float, trip: float | None) -> ThermalZone:
        return ThermalZone(
            sensor=sensor,
            name=name,
            temperature_celsius=celsius,
            # A trip point of 0 or less is a driver's way to say that there is none.
            trip_celsius=trip if trip is not None and trip > 0 else None,
            role=self._role(name),
        )

    def _role(self, name: str) -> ZoneRole:
        for role, patterns in self._patterns.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                return role
        return ZoneRole.OTHER


def normalise(name: str) -> str:
    """Lower case, with everything but letters, digits and pattern signs turned into `_`."""
    return re.sub(r"[^a-z0-9*?]+", "_", name.lower()).strip("_")
