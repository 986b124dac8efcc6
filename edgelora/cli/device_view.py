"""The device's pressure and readings as lines for people. What nothing tells is called unknown."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message

from edgelora.cli.output import printable
from edgelora.v1.monitor_service_pb2 import (
    BatteryState,
    DevicePressure,
    DeviceSnapshot,
    DimensionPressure,
    Gpu,
    ProcessSample,
)


def pressure_lines(pressure: DevicePressure) -> Iterator[str]:
    """Why each dimension is at its level."""
    dimensions: tuple[DimensionPressure, ...] = (
        pressure.temperature,
        pressure.memory,
        pressure.battery,
    )
    for dimension in dimensions:
        yield f"pressure  {printable(dimension.explanation)}"


def reading_lines(device: DeviceSnapshot) -> Iterator[str]:
    """What the sensors tell."""
    yield (
        f"processor {_number(device, 'cpu_utilisation', '{:.0f} %', 100)} busy, "
        f"{_frequency(device)}, {device.num_cores} cores"
    )
    yield (
        f"memory    {_number(device, 'memory_available_bytes', '{:.1f} GB', 1e-9)} of "
        f"{_number(device, 'memory_total_bytes', '{:.1f} GB', 1e-9)} free"
    )
    yield (
        f"stalls    cpu {_number(device, 'cpu_stall', '{:.1f} %', 100)}, "
        f"memory {_number(device, 'memory_stall', '{:.1f} %', 100)}, "
        f"io {_number(device, 'io_stall', '{:.1f} %', 100)}"
    )
    yield f"battery   {_battery(device)}"
    for zone in device.thermal_zones:
        counts = "" if zone.is_processor else ", does not count"
        yield f"sensor    {printable(zone.name)} {zone.temperature_celsius:.1f} °C{counts}"
    for gpu in device.gpus:
        yield f"gpu       {_gpu(gpu)}"
    for source in device.reporting_sources:
        yield f"reports   {source}"
    for process in device.processes:
        yield f"process   {_process(process)}"


def leak_lines(device: DeviceSnapshot) -> Iterator[str]:
    """The processes whose memory looks like a leak."""
    for process in device.processes:
        if process.is_growing:
            yield f"leak?     {_process(process)}"


def _process(process: ProcessSample) -> str:
    used = (
        f"{printable(process.service)} {process.rss_bytes / 1e6:.0f} MB, "
        f"{process.cpu_cores:.2f} cores"
    )
    if not process.HasField("growth_bytes_per_hour"):
        return used
    growth = f"{process.growth_bytes_per_hour / 1e6:+.1f} MB an hour"
    return f"{used}, {growth}{', steadily: it looks like a leak' if process.is_growing else ''}"


def _frequency(device: DeviceSnapshot) -> str:
    if not device.HasField("cpu_frequency_hz"):
        return "frequency unknown"
    return (
        f"{_number(device, 'cpu_frequency_hz', '{:.1f} GHz', 1e-9)} of "
        f"{_number(device, 'cpu_max_frequency_hz', '{:.1f} GHz', 1e-9)}"
    )


def _battery(device: DeviceSnapshot) -> str:
    if not device.HasField("battery"):
        return "none that can be read"
    state = BatteryState.Name(device.battery.state).removeprefix("BATTERY_STATE_")
    return (
        f"{_number(device.battery, 'charge', '{:.0f} %', 100)}, "
        f"{state.lower().replace('_', ' ')}, {_number(device.battery, 'power_w', '{:.1f} W')}"
    )


def _gpu(gpu: Gpu) -> str:
    return (
        f"{printable(gpu.name)}: {_number(gpu, 'temperature_celsius', '{:.0f} °C')}, "
        f"{_number(gpu, 'utilisation', '{:.0f} %', 100)} busy, "
        f"{_number(gpu, 'memory_used_bytes', '{:.1f}', 1e-9)} of "
        f"{_number(gpu, 'memory_total_bytes', '{:.1f} GB', 1e-9)} in use, "
        f"{_number(gpu, 'power_w', '{:.0f} W')}"
    )


def _number(message: Message, name: str, form: str, scale: float = 1.0) -> str:
    return form.format(getattr(message, name) * scale) if message.HasField(name) else "unknown"
