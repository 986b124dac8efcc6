"""The battery from the kernel's power supply class.

`capacity` and `status` are read by themselves: another file that is empty or missing does not
hide them. The remaining time is not read at all, because drivers report it as -1, -2 or a century.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.monitor.probes.sensor_files import SensorFiles
from services.monitor.sample import BatteryState

_SUPPLIES = "sys/class/power_supply"
_STATES = {
    "charging": BatteryState.CHARGING,
    "discharging": BatteryState.DISCHARGING,
    "full": BatteryState.FULL,
    "not charging": BatteryState.NOT_CHARGING,
}
_MAX_MICRO = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryReading:
    """All batteries of the device taken together; None is unknown."""

    has_battery: bool | None = None
    charge: float | None = None
    state: BatteryState | None = None
    power_w: float | None = None
    temperature_celsius: float | None = None
    """Of the battery itself, where it tells together with the charge."""
    sensor: str | None = None
    """What told of it; None when nothing did."""


class BatteryProbe:
    """Reads the batteries that power the device; those of mice and headsets do not count."""

    def __init__(self, files: SensorFiles) -> None:
        self._files = files

    def read(self) -> BatteryReading:
        """Returns the mean charge, the most urgent state and the sum of the power."""
        supplies = self._files.names(_SUPPLIES, "*")
        if supplies is None:
            return BatteryReading()
        types = {name: self._files.text(f"{_SUPPLIES}/{name}/type") for name in supplies}
        batteries = [
            f"{_SUPPLIES}/{name}"
            for name, kind in types.items()
            if kind == "Battery" and self._powers_the_device(name)
        ]
        if not batteries:
            # A supply that does not say what it is may be the battery.
            return BatteryReading(has_battery=None if None in types.values() else False)
        charges = [charge for path in batteries if (charge := self._charge(path)) is not None]
        powers = [power for path in batteries if (power := self._power_w(path)) is not None]
        return BatteryReading(
            has_battery=True,
            charge=sum(charges) / len(charges) if charges else None,
            state=self._state(batteries),
            power_w=sum(powers) if powers else None,
            sensor="battery",
        )

    def _powers_the_device(self, name: str) -> bool:
        path = f"{_SUPPLIES}/{name}"
        is_of_peripheral = self._files.text(f"{path}/scope") == "Device"
        return not is_of_peripheral and self._files.text(f"{path}/present") != "0"

    def _charge(self, path: str) -> float | None:
        # Worn batteries report a little above 100.
        percent = self._files.number(f"{path}/capacity", low=0.0, high=110.0)
        if percent is not None:
            return min(1.0, percent / 100.0)
        for kind in ("energy", "charge"):
            now = self._files.number(f"{path}/{kind}_now", low=0.0, high=_MAX_MICRO)
            full = self._files.number(f"{path}/{kind}_full", low=1.0, high=_MAX_MICRO)
            if now is not None and full is not None:
                return min(1.0, now / full)
        return None

    def _state(self, batteries: list[str]) -> BatteryState | None:
        texts = [text for path in batteries if (text := self._files.text(f"{path}/status"))]
        states = [_STATES.get(text.lower(), BatteryState.UNKNOWN) for text in texts]
        for urgent in (BatteryState.DISCHARGING, BatteryState.UNKNOWN, BatteryState.CHARGING):
            if urgent in states:
                return urgent
        return states[0] if states else None

    def _power_w(self, path: str) -> float | None:
        micro_watts = self._micro(f"{path}/power_now")
        if micro_watts is not None:
            return micro_watts * 1e-6
        micro_amperes = self._micro(f"{path}/current_now")
        micro_volts = self._micro(f"{path}/voltage_now")
        if micro_amperes is None or micro_volts is None:
            return None
        return micro_amperes * micro_volts * 1e-12

    def _micro(self, sensor: str) -> float | None:
        value = self._files.number(sensor, low=-_MAX_MICRO, high=_MAX_MICRO)
        return None if value is None else abs(value)
