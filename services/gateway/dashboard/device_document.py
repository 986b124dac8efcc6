"""The device and our processes, for the browser. What no sensor tells is null, never 0."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from edgelora.v1.monitor_service_pb2 import Battery, BatteryState, DeviceSnapshot, Gpu


def optional(message: Message | None, name: str) -> Any:
    """An optional field's value, None when it, or the message, is absent."""
    return getattr(message, name) if message is not None and message.HasField(name) else None


def device_document(snapshot: DeviceSnapshot) -> dict[str, Any]:
    """One sample of the device."""
    return {
        "age": snapshot.age.ToMicroseconds() / 1e6,
        "num_cores": snapshot.num_cores,
        "temperature": optional(snapshot, "temperature_celsius"),
        "frequency": optional(snapshot, "cpu_frequency_hz"),
        "max_frequency": optional(snapshot, "cpu_max_frequency_hz"),
        "utilisation": optional(snapshot, "cpu_utilisation"),
        "memory_total": optional(snapshot, "memory_total_bytes"),
        "memory_available": optional(snapshot, "memory_available_bytes"),
        "memory_stall": optional(snapshot, "memory_stall"),
        "zones": [
            {"name": zone.name, "temperature": zone.temperature_celsius}
            for zone in snapshot.thermal_zones
        ],
        "gpus": [_gpu(gpu) for gpu in snapshot.gpus],
        "battery": _battery(snapshot.battery) if snapshot.HasField("battery") else None,
        "processes": [
            {
                "service": process.service,
                "bytes": process.rss_bytes,
                "cpu_cores": process.cpu_cores,
                "growth_per_hour": optional(process, "growth_bytes_per_hour"),
                "is_growing": process.is_growing,
            }
            for process in snapshot.processes
        ],
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "temperature": optional(gpu, "temperature_celsius"),
        "utilisation": optional(gpu, "utilisation"),
        "memory_total": optional(gpu, "memory_total_bytes"),
        "memory_used": optional(gpu, "memory_used_bytes"),
        "power": optional(gpu, "power_w"),
    }


def _battery(battery: Battery) -> dict[str, Any]:
    state = BatteryState.Name(battery.state).removeprefix("BATTERY_STATE_").lower()
    return {
        "charge": optional(battery, "charge"),
        "state": "unknown" if state == "unspecified" else state.replace("_", " "),
        "power": optional(battery, "power_w"),
    }
