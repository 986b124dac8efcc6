"""A device's sensors as files: what a monitor reads whose root is this directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_ZONE = "sys/class/thermal/thermal_zone0"
_BATTERY = "sys/class/power_supply/BAT0"
_TOTAL_KIB = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What the sensors say."""

    celsius: float | None
    """None: the sensor gives nothing any more."""
    charge_percent: int
    is_charging: bool
    memory_share: float
    """In use."""


class SensorTree:
    """Writes the files below `root`, each in one step, as a driver does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._write(f"{_ZONE}/type", "cpu-thermal")
        self._write(f"{_BATTERY}/type", "Battery")
        for resource in ("cpu", "memory", "io"):
            calm = "avg10=0.00 avg60=0.00 avg300=0.00 total=0"
            self._write(f"proc/pressure/{resource}", f"some {calm}\nfull {calm}")

    def show(self, device: Device) -> None:
        """Sets every sensor."""
        if device.celsius is None:
            (self.root / _ZONE / "temp").unlink(missing_ok=True)
        else:
            self._write(f"{_ZONE}/temp", str(round(device.celsius * 1000)))
        self._write(f"{_BATTERY}/capacity", str(device.charge_percent))
        self._write(f"{_BATTERY}/status", "Charging" if device.is_charging else "Discharging")
        available_kib = round(_TOTAL_KIB * (1 - device.memory_share))
        self._write(
            "proc/meminfo",
            f"MemTotal: {_TOTAL_KIB} kB\nMemFree: 1 kB\nMemAvailable: {available_kib} kB",
        )

    def _write(self, sensor: str, text: str) -> None:
        path = self.root / sensor
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(f"{text}\n", encoding="ascii")
        fresh.rename(path)
