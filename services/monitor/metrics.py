"""What the monitor shows: the device as it knows it, and what our own processes use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from services.chassis.metrics import Metrics, gauge, gauges
from services.monitor.last_values import LastValues
from services.monitor.pressure import PressureLevel
from services.monitor.pressure_board import PressureBoard
from services.monitor.sample import BatteryState, DeviceSample, GpuUse, ProcessUse, ThermalZone

_MAX_ZONES = 48
_MAX_GPUS = 16


class MonitorMetrics(Metrics):
    """The metrics of one monitor."""

    def __init__(self, address: str) -> None:
        super().__init__("monitor", address)

    def watch(
        self, last_values: LastValues, board: PressureBoard, clock: Callable[[], float]
    ) -> None:
        """Says where to read what the monitor knows."""

        def read() -> Iterable[Metric]:
            now_s = clock()
            sampled_at_s = last_values.sampled_at_s
            yield gauge(
                "edgelora_sample_age_seconds",
                "Age of the newest sample of the device; absent before the first.",
                None if sampled_at_s is None else now_s - sampled_at_s,
            )
            sample = last_values.at(now_s)
            yield from _processor(sample)
            yield from _memory(sample)
            yield from _battery(sample)
            yield from _gpus(sample.gpus[:_MAX_GPUS])
            yield from _processes(sample.processes)
            yield _levels(board)

        self.read_on_loop(read)


def _processor(sample: DeviceSample) -> Iterable[Metric]:
    yield _zones(sample.thermal_zones)
    yield gauge(
        "edgelora_temperature_celsius",
        "The hottest of the sensors that count.",
        sample.temperature_celsius,
    )
    yield gauge("edgelora_cpu_frequency_hertz", "Mean over the cores.", sample.cpu_frequency_hz)
    yield gauge(
        "edgelora_cpu_max_frequency_hertz",
        "The most the processor may run at.",
        sample.cpu_max_frequency_hz,
    )
    yield gauge(
        "edgelora_cpu_utilisation_ratio",
        "Share of all cores in use since the sample before.",
        sample.cpu_utilisation,
    )
    yield gauges(
        "edgelora_stall_ratio",
        "Share of the last 10 s in which some task waited for it (PSI).",
        "resource",
        {"cpu": sample.cpu_stall, "memory": sample.memory_stall, "io": sample.io_stall},
    )


def _zones(zones: Sequence[ThermalZone]) -> Metric:
    """The first of a name counts: names repeat, series must not."""
    kept: dict[str, float] = {}
    for zone in zones:
        if len(kept) < _MAX_ZONES:
            kept.setdefault(zone.name, zone.temperature_celsius)
    return gauges(
        "edgelora_zone_temperature_celsius",
        f"Every temperature sensor, at most {_MAX_ZONES}.",
        "zone",
        kept,
    )


def _memory(sample: DeviceSample) -> Iterable[Metric]:
    yield gauge(
        "edgelora_memory_total_bytes",
        "Of the device, or of the container where that is tighter.",
        sample.memory_total_bytes,
    )
    yield gauge(
        "edgelora_memory_available_bytes",
        "What may still be used of it.",
        sample.memory_available_bytes,
    )


def _battery(sample: DeviceSample) -> Iterable[Metric]:
    yield gauge("edgelora_battery_charge_ratio", "0 to 1.", sample.battery_charge)
    yield gauge(
        "edgelora_battery_power_watts", "Drawn or charged, never negative.", sample.battery_power_w
    )
    states = {
        state.name.lower(): float(state is sample.battery_state)
        for state in BatteryState
        if sample.battery_state is not None
    }
    yield gauges(
        "edgelora_battery_state",
        "1 for what the power supply says, 0 for the other states; absent without a battery.",
        "state",
        states,
    )


def _gpus(gpus: Sequence[GpuUse]) -> Iterable[Metric]:
    names = [str(gpu.index) for gpu in gpus]

    def of(name: str, meaning: str, values: Iterable[float | None]) -> Metric:
        return gauges(name, meaning, "gpu", dict(zip(names, values, strict=True)))

    yield of(
        "edgelora_gpu_temperature_celsius",
        "By the driver's number.",
        (gpu.temperature_celsius for gpu in gpus),
    )
    yield of(
        "edgelora_gpu_utilisation_ratio", "Share of time in use.", (gpu.utilisation for gpu in gpus)
    )
    yield of(
        "edgelora_gpu_memory_total_bytes",
        "Memory of the GPU.",
        (gpu.memory_total_bytes for gpu in gpus),
    )
    yield of(
        "edgelora_gpu_memory_used_bytes",
        "What is in use of it.",
        (gpu.memory_used_bytes for gpu in gpus),
    )
    yield of("edgelora_gpu_power_watts", "Drawn now.", (gpu.power_w for gpu in gpus))


def _processes(processes: Sequence[ProcessUse]) -> Iterable[Metric]:
    yield gauges(
        "edgelora_service_resident_memory_bytes",
        "Resident memory of each of our processes, Redis among them.",
        "service",
        {process.service: process.rss_bytes for process in processes},
    )
    yield gauges(
        "edgelora_service_cpu_cores",
        "Cores in use by each of them.",
        "service",
        {process.service: process.cpu_cores for process in processes},
    )
    yield gauges(
        "edgelora_service_growth_bytes_per_hour",
        "How fast its memory grew over the window; absent until a whole one was seen.",
        "service",
        {process.service: process.growth_bytes_per_hour for process in processes},
    )
    yield gauges(
        "edgelora_service_growing",
        "1 where that growth is so steady that it looks like a leak, else 0.",
        "service",
        {
            process.service: float(process.is_growing)
            for process in processes
            if process.growth_bytes_per_hour is not None
        },
    )


def _levels(board: PressureBoard) -> Metric:
    family = GaugeMetricFamily(
        "edgelora_pressure_level",
        "1 for the level each dimension of the device is at, 0 for its other levels.",
        labels=["dimension", "level"],
    )
    for dimension, current in board.current.levels.items():
        for level in PressureLevel:
            family.add_metric([dimension, level.name.lower()], float(level is current))
    return family
