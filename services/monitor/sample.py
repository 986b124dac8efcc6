"""One sample of the device. Every value that could not be read is None: unknown, never 0."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


class ZoneRole(enum.Enum):
    """What a temperature sensor says about the processor."""

    PROCESSOR = enum.auto()
    """It measures the processor."""
    FALLBACK = enum.auto()
    """It stands for the processor where no processor sensor can be read."""
    BESIDE = enum.auto()
    """It counts besides the processor's: a graphics processor."""
    OTHER = enum.auto()
    """A disk, a radio, a battery: shown, but it throttles nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalZone:
    """One temperature sensor that could be read."""

    sensor: str
    """Path below the root: its identity, because names repeat."""
    name: str
    """Lower case, words joined by `_`."""
    temperature_celsius: float
    trip_celsius: float | None
    """Lowest temperature at which the hardware itself takes emergency measures."""
    role: ZoneRole


class BatteryState(enum.IntEnum):
    """What the power supply says. The numbers are those of the proto."""

    CHARGING = 1
    DISCHARGING = 2
    FULL = 3
    NOT_CHARGING = 4
    UNKNOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """What one of our own processes uses."""

    service: str
    pid: int
    rss_bytes: int
    cpu_cores: float
    """Cores in use since the sample before, 1 meaning one full core."""
    growth_bytes_per_hour: float | None = None
    """How fast its memory grew over the last minutes; None until that long was seen."""
    is_growing: bool = False
    """Whether it grew so steadily that it looks like a leak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """One graphics processor."""

    index: int
    """The driver's number."""
    name: str
    temperature_celsius: float | None = None
    utilisation: float | None = None
    """0 to 1."""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    power_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """Everything that could be read at one moment."""

    thermal_zones: Sequence[ThermalZone] = ()
    cpu_frequency_hz: float | None = None
    """Mean over cores."""
    cpu_max_frequency_hz: float | None = None
    cpu_utilisation: float | None = None
    """Share of all cores in use since the sample before, 0 to 1."""
    memory_total_bytes: int | None = None
    """Of the device, or of the container where that is tighter."""
    memory_available_bytes: int | None = None
    has_battery: bool | None = None
    battery_charge: float | None = None
    """0 to 1."""
    battery_state: BatteryState | None = None
    battery_power_w: float | None = None
    """Drawn or charged, always positive."""
    battery_sensor: str | None = None
    """What told of the battery."""
    cpu_stall: float | None = None
    """Share of the last 10 s in which some task waited for it, 0 to 1 (PSI)."""
    memory_stall: float | None = None
    io_stall: float | None = None
    processes: Sequence[ProcessUse] = ()
    gpus: Sequence[GpuUse] = ()

    @property
    def processor_zones(self) -> list[ThermalZone]:
        """The zones that count: processor sensors, or the fallbacks where there are none, and
        those that count besides."""
        roles = {zone.role for zone in self.thermal_zones}
        own = ZoneRole.PROCESSOR if ZoneRole.PROCESSOR in roles else ZoneRole.FALLBACK
        return [zone for zone in self.thermal_zones if zone.role in (own, ZoneRole.BESIDE)]

    @property
    def hottest_zone(self) -> ThermalZone | None:
        """The hottest of the zones that count."""
        return max(self.processor_zones, key=lambda zone: zone.temperature_celsius, default=None)

    @property
    def temperature_celsius(self) -> float | None:
        """That of the hottest zone that counts."""
        zone = self.hottest_zone
        return zone.temperature_celsius if zone else None

    @property
    def memory_used_share(self) -> float | None:
        """0 to 1."""
        if not self.memory_total_bytes or self.memory_available_bytes is None:
            return None
        return 1.0 - self.memory_available_bytes / self.memory_total_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedReadings:
    """What an outside source has measured. Every value that it leaves out is None."""

    battery_charge: float | None = None
    """0 to 1."""
    battery_state: BatteryState | None = None
    temperatures: Mapping[str, float] = field(default_factory=dict)
    """Name -> degrees Celsius."""
