"""How fast and how busy the processor is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import psutil

from services.monitor.probes.sensor_files import SensorFiles

_CPUS = "sys/devices/system/cpu"
_MAX_KHZ = 100e6


class FrequencyProbe:
    """Clock rates from cpufreq. Virtual machines have none: unknown, not 0."""

    def __init__(self, files: SensorFiles) -> None:
        self._files = files

    def current_hz(self) -> float | None:
        """Mean over the cores that tell."""
        return _mean_hz(self._read("scaling_cur_freq"))

    def max_hz(self) -> float | None:
        """Mean of the cores' highest rates, so that its ratio to the current rate means something
        on processors with unequal cores."""
        return _mean_hz(self._read("cpuinfo_max_freq"))

    def _read(self, file: str) -> list[float]:
        rates_khz = (
            # 0 is what drivers report when they do not know.
            self._files.number(f"{_CPUS}/{cpu}/cpufreq/{file}", low=1.0, high=_MAX_KHZ)
            for cpu in self._files.names(_CPUS, "cpu[0-9]*") or []
        )
        return [rate for rate in rates_khz if rate is not None]


class UtilisationProbe:
    """Share of all cores in use between two readings."""

    def __init__(self, cpu_times: Callable[[], Any] = psutil.cpu_times) -> None:
        # psutil.cpu_percent keeps its last reading for each thread, so it would answer 0.0
        # whenever the sampler runs on a new thread.
        self._cpu_times = cpu_times
        self._last: tuple[float, float] | None = None

    def read(self) -> float | None:
        """Returns 0 to 1; None the first time and when no time has passed."""
        times = self._cpu_times()._asdict()
        total_s: float = sum(s for name, s in times.items() if not name.startswith("guest"))
        idle_s: float = times["idle"] + times.get("iowait", 0.0)
        last, self._last = self._last, (total_s, idle_s)
        if last is None or total_s <= last[0]:
            return None
        idle_share = (idle_s - last[1]) / (total_s - last[0])
        return min(1.0, max(0.0, 1.0 - idle_share))


def _mean_hz(rates_khz: Iterable[float]) -> float | None:
    rates = list(rates_khz)
    return sum(rates) / len(rates) * 1000.0 if rates else None
