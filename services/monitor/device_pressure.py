"""The pressure of the whole device: every dimension from all of its sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

from services.monitor import readings
from services.monitor.dimension import Dimension, DimensionState
from services.monitor.pressure import PressureLevel, Reading, SourcePressure, Thresholds
from services.monitor.sample import DeviceSample, ReportedReadings, ZoneRole


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureThresholds:
    """The thresholds of all sources."""

    temperature: Thresholds
    """Degrees Celsius of the hottest zone that counts."""
    memory: Thresholds
    """Share in use, 0 to 1."""
    memory_stall: Thresholds
    """Share of time in which some task waited for memory, 0 to 1."""
    battery: Thresholds
    """Charge while discharging, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """The state of each dimension."""

    temperature: DimensionState
    memory: DimensionState
    battery: DimensionState

    @property
    def dimensions(self) -> dict[str, DimensionState]:
        """Name -> state."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def levels(self) -> dict[str, PressureLevel]:
        """Name -> level."""
        return {name: state.level for name, state in self.dimensions.items()}


class DevicePressure:
    """The state of all dimensions over time.

    Temperature and battery come from the device's own sensors and from every outside source that
    ever told them: the worst counts. A source that told and does not any more is unknown until it
    is withdrawn; the device's own sensors are not waited for when they never told and others do.
    Where the processor's sensor told and does not any more, others can only raise the level.
    """

    def __init__(
        self, thresholds: PressureThresholds, reported_zones: Sequence[str], now_s: float
    ) -> None:
        self._thresholds = thresholds
        self._reported_zones = reported_zones
        self._temperature, self._memory, self._battery = (Dimension(now_s) for _ in range(3))
        self._temperatures = {"": SourcePressure(thresholds.temperature)}
        self._batteries = {"": SourcePressure(thresholds.battery)}
        self._has_processor_sensor = False
        self._memory_share = SourcePressure(thresholds.memory)
        self._memory_stall = SourcePressure(thresholds.memory_stall)

    def update(
        self,
        sample: DeviceSample,
        reports: Mapping[str, ReportedReadings | None],
        now_s: float,
    ) -> Pressure:
        """Takes the next sample and what outside sources say; None is one that fell silent."""
        limits = self._thresholds
        temperatures = _told(
            self._temperatures,
            self._own_temperature(sample),
            reports,
            self._reported_temperature,
            now_s,
        )
        batteries = _told(
            self._batteries,
            readings.battery(sample, limits.battery),
            reports,
            self._reported_battery,
            now_s,
        )
        self._memory_share.update(readings.memory(sample), now_s)
        self._memory_stall.update(readings.memory_stall(sample), now_s)
        self._temperature.update(temperatures, now_s)
        self._memory.update([self._memory_share, *self._stall_that_told()], now_s)
        self._battery.update(batteries, now_s)
        return self.current

    @property
    def current(self) -> Pressure:
        """The state after the last sample; all UNKNOWN before the first."""
        return Pressure(
            temperature=self._temperature.state,
            memory=self._memory.state,
            battery=self._battery.state,
        )

    def _stall_that_told(self) -> list[SourcePressure]:
        """Many kernels do not count stalls: what never told of them is not waited for."""
        return [self._memory_stall] if self._memory_stall.last_sensor else []

    def _own_temperature(self, sample: DeviceSample) -> Reading | None:
        """From the moment the processor's sensor has told, no other one says that all is calm."""
        tells = any(zone.role is ZoneRole.PROCESSOR for zone in sample.thermal_zones)
        self._has_processor_sensor |= tells
        is_lost = self._has_processor_sensor and not tells
        return readings.temperature(sample, self._thresholds.temperature, is_processor_lost=is_lost)

    def _reported_temperature(self, source: str, told: ReportedReadings) -> Reading | None:
        counting = {
            name: celsius
            for name, celsius in told.temperatures.items()
            if any(fnmatchcase(name, pattern) for pattern in self._reported_zones)
        }
        return readings.reported_temperature(source, counting)

    def _reported_battery(self, source: str, told: ReportedReadings) -> Reading | None:
        return readings.reported_battery(source, told, self._thresholds.battery)


def _told(
    sources: dict[str, SourcePressure],
    own: Reading | None,
    reports: Mapping[str, ReportedReadings | None],
    reading_of: Callable[[str, ReportedReadings], Reading | None],
    now_s: float,
) -> list[SourcePressure]:
    """Updates the sources of one dimension; returns those that ever told.

    The empty name is the device itself.
    """
    thresholds = sources[""].thresholds
    for withdrawn in sources.keys() - reports.keys() - {""}:
        del sources[withdrawn]
    sources[""].update(own, now_s)
    for name, told in reports.items():
        source = sources.setdefault(name, SourcePressure(thresholds))
        source.update(None if told is None else reading_of(name, told), now_s)
    return [source for source in sources.values() if source.last_sensor]
