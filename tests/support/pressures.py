"""Devices and settings of the pressure policy, ready for a test."""

from __future__ import annotations

from services.chassis.settings import Settings
from services.scheduler.pressure.device import DeviceState, Dimension, DimensionState, PressureLevel
from services.scheduler.pressure.settings import PressureSettings

READINGS = {
    Dimension.TEMPERATURE: {"NORMAL": 40.0, "ELEVATED": 47.0, "CRITICAL": 61.0},
    Dimension.MEMORY: {"NORMAL": 0.5, "ELEVATED": 0.82, "CRITICAL": 0.87},
    Dimension.BATTERY: {"NORMAL": 0.9, "ELEVATED": 0.15, "CRITICAL": 0.08},
}


def make_settings(**changes: object) -> PressureSettings:
    """The defaults, but for the named variables."""
    settings = Settings({f"X_{name}": str(value) for name, value in changes.items()}, "X_")
    read = PressureSettings.read(settings)
    settings.finish()
    return read


def make_device(since_s: float = 0.0, **levels: str | PressureLevel) -> DeviceState:
    """A calm device, but for the named dimensions."""

    def state(dimension: Dimension) -> DimensionState:
        level = levels.get(dimension, "NORMAL")
        level = level if isinstance(level, PressureLevel) else PressureLevel[level]
        return DimensionState(
            level=level, since_s=since_s, reading=READINGS[dimension].get(level.name)
        )

    return DeviceState(**{dimension.value: state(dimension) for dimension in Dimension})
