"""Samples and pressure as the messages of the MonitorService, and reports as readings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.v1 import monitor_service_pb2 as pb
from services.monitor.device_pressure import Pressure
from services.monitor.dimension import DimensionState
from services.monitor.explanation import explain
from services.monitor.sample import BatteryState, DeviceSample, GpuUse, ReportedReadings

_SCALARS = (
    "temperature_celsius",
    "cpu_frequency_hz",
    "cpu_max_frequency_hz",
    "cpu_utilisation",
    "memory_total_bytes",
    "memory_available_bytes",
    "cpu_stall",
    "memory_stall",
    "io_stall",
)


def device_snapshot(
    sample: DeviceSample, *, num_cores: int, reporting_sources: Iterable[str]
) -> pb.DeviceSnapshot:
    """What is known of the device; the caller adds when it was sampled."""
    counting = sample.processor_zones
    snapshot = pb.DeviceSnapshot(
        num_cores=num_cores,
        thermal_zones=[
            pb.ThermalZone(
                name=zone.name,
                temperature_celsius=zone.temperature_celsius,
                is_processor=zone in counting,
            )
            for zone in sample.thermal_zones
        ],
        gpus=[_gpu(gpu) for gpu in sample.gpus],
        reporting_sources=sorted(reporting_sources),
        processes=[pb.ProcessSample(**asdict(process)) for process in sample.processes],
        **{name: getattr(sample, name) for name in _SCALARS},
    )
    if (battery := _battery(sample)) is not None:
        snapshot.battery.CopyFrom(battery)
    return snapshot


def reported(report: pb.DeviceReport) -> ReportedReadings:
    """What a report says; what it leaves out is unknown."""
    return ReportedReadings(
        battery_charge=report.battery_charge if report.HasField("battery_charge") else None,
        battery_state=BatteryState(report.battery_state) if report.battery_state else None,
        temperatures={
            temperature.name: temperature.temperature_celsius for temperature in report.temperatures
        },
    )


def _gpu(gpu: GpuUse) -> pb.Gpu:
    return pb.Gpu(
        name=gpu.name,
        temperature_celsius=gpu.temperature_celsius,
        utilisation=gpu.utilisation,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_used_bytes=gpu.memory_used_bytes,
        power_w=gpu.power_w,
    )


def _battery(sample: DeviceSample) -> pb.Battery | None:
    """None when there is no battery or nothing of it can be read."""
    if not sample.has_battery or (sample.battery_charge is None and sample.battery_state is None):
        return None
    return pb.Battery(
        charge=sample.battery_charge,
        state=pb.BatteryState.Name(sample.battery_state or BatteryState.UNKNOWN),
        power_w=sample.battery_power_w,
    )


def device_pressure(pressure: Pressure, now_s: float) -> pb.DevicePressure:
    """Every dimension with its reason."""
    return pb.DevicePressure(
        **{name: _dimension(name, state, now_s) for name, state in pressure.dimensions.items()}
    )


def _dimension(name: str, state: DimensionState, now_s: float) -> pb.DimensionPressure:
    return pb.DimensionPressure(
        level=pb.PressureLevel.Name(state.level),
        held=duration(max(0.0, now_s - state.since_s)),
        reading=state.reading.shown if state.reading else None,
        threshold=state.threshold,
        sensor=state.sensor,
        explanation=explain(name, state, now_s),
    )


def duration(seconds: float) -> Duration:
    """To the millisecond."""
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration


def timestamp(unix_s: float) -> Timestamp:
    """To the millisecond."""
    timestamp = Timestamp()
    timestamp.FromMilliseconds(round(unix_s * 1000))
    return timestamp
