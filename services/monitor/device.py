"""Puts what the probes read together. No probe raises, so none hides another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from services.monitor.probes.battery import BatteryProbe
from services.monitor.probes.memory import MemoryProbe
from services.monitor.probes.processes import ProcessProbe
from services.monitor.probes.processor import FrequencyProbe, UtilisationProbe
from services.monitor.probes.sensor_files import SensorFiles
from services.monitor.probes.stall import StallProbe
from services.monitor.probes.thermal import ThermalProbe
from services.monitor.sample import DeviceSample


class Device:
    """The machine below `root`, `/` for the real one."""

    def __init__(
        self,
        files: SensorFiles,
        *,
        processor_names: Sequence[str],
        fallback_names: Sequence[str],
        run_directory: Path | None,
        clock: Callable[[], float],
    ) -> None:
        self._thermal = ThermalProbe(files, processor_names, fallback_names)
        self._frequency = FrequencyProbe(files)
        self._utilisation = UtilisationProbe()
        self._memory = MemoryProbe(files)
        self._battery = BatteryProbe(files)
        self._stall = StallProbe(files)
        self._processes = ProcessProbe(run_directory, clock)

    def sample(self) -> DeviceSample:
        """Reads everything once; blocks for as long as the drivers take."""
        memory = self._memory.read()
        battery = self._battery.read()
        return DeviceSample(
            thermal_zones=self._thermal.read(),
            cpu_frequency_hz=self._frequency.current_hz(),
            cpu_max_frequency_hz=self._frequency.max_hz(),
            cpu_utilisation=self._utilisation.read(),
            memory_total_bytes=memory.total_bytes,
            memory_available_bytes=memory.available_bytes,
            has_battery=battery.has_battery,
            battery_charge=battery.charge,
            battery_state=battery.state,
            battery_power_w=battery.power_w,
            battery_sensor=battery.sensor,
            cpu_stall=self._stall.read("cpu"),
            memory_stall=self._stall.read("memory"),
            io_stall=self._stall.read("io"),
            processes=self._processes.read(),
        )
