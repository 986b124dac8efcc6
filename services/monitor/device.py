"""Puts what the probes read together. No probe raises, so none hides another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from services.monitor.probes.battery import BatteryProbe, BatteryReading
from services.monitor.probes.memory import MemoryProbe
from services.monitor.probes.nvidia import NvidiaProbe
from services.monitor.probes.processes import ProcessProbe
from services.monitor.probes.processor import FrequencyProbe, UtilisationProbe
from services.monitor.probes.sensor_files import SensorFiles
from services.monitor.probes.stall import StallProbe
from services.monitor.probes.termux import TermuxBattery
from services.monitor.probes.thermal import ThermalProbe, normalise
from services.monitor.sample import DeviceSample, GpuUse, ThermalZone, ZoneRole


class Device:
    """The machine below `root`, `/` for the real one."""

    def __init__(
        self,
        files: SensorFiles,
        *,
        processor_names: Sequence[str],
        fallback_names: Sequence[str],
        run_directory: Path | None,
        termux: TermuxBattery | None,
        clock: Callable[[], float],
    ) -> None:
        self._thermal = ThermalProbe(files, processor_names, fallback_names)
        self._frequency = FrequencyProbe(files)
        self._utilisation = UtilisationProbe()
        self._memory = MemoryProbe(files)
        self._battery = BatteryProbe(files)
        self._termux = termux
        self._nvidia = NvidiaProbe(clock, files.warn)
        self._stall = StallProbe(files)
        self._processes = ProcessProbe(run_directory, clock)

    def sample(self) -> DeviceSample:
        """Reads everything once; blocks for as long as the drivers take."""
        memory = self._memory.read()
        gpus = self._nvidia.read()
        battery = self._read_battery()
        zones = [*self._thermal.read(), *_gpu_zones(gpus)]
        if battery.sensor and battery.temperature_celsius is not None:
            zones.append(
                self._thermal.zone(battery.sensor, battery.sensor, battery.temperature_celsius)
            )
        return DeviceSample(
            thermal_zones=zones,
            gpus=gpus,
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

    def _read_battery(self) -> BatteryReading:
        battery = self._battery.read()
        if self._termux is None or battery.charge is not None:
            return battery
        # That sysfs shows no battery means nothing where Android hides it.
        return self._termux.take() or BatteryReading()


def _gpu_zones(gpus: Sequence[GpuUse]) -> list[ThermalZone]:
    return [
        ThermalZone(
            sensor=f"nvidia/{gpu.index}",
            name=normalise(f"gpu{gpu.index} {gpu.name}"),
            temperature_celsius=gpu.temperature_celsius,
            trip_celsius=None,
            role=ZoneRole.BESIDE,
        )
        for gpu in gpus
        if gpu.temperature_celsius is not None
    ]
