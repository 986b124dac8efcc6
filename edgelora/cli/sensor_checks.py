"""What `doctor` says of the sensors, read by the monitor's own probes."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgelora.cli.device_checks import Finding, Level
from edgelora.cli.output import counted
from services.chassis.extras import install_command
from services.monitor.config import (
    FALLBACK_ZONES,
    PREFIX,
    PROCESSOR_ZONES,
    TERMUX_COMMAND,
    split_names,
)
from services.monitor.device import Device
from services.monitor.probes.sensor_files import SensorFiles
from services.monitor.probes.termux import TermuxBattery
from services.monitor.sample import DeviceSample

_MAX_NAMES = 4
_UNKNOWN = "EDGELORA_SCHEDULER_{}_UNKNOWN"
_REPORT = "`edgelora device report` can tell it"


def sensor_findings(root: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Samples the device below `root` once, as the monitor would with these settings."""
    unreadable: dict[str, str] = {}
    sample = _sample(root, environ, unreadable)
    yield temperature(sample, environ)
    yield memory_use(sample, environ)
    yield stalls(sample)
    yield battery(sample, environ)
    yield frequency(sample)
    yield from gpus(root, sample)
    if unreadable:
        named = ", ".join(f"{sensor} ({cause})" for sensor, cause in unreadable.items())
        yield Finding("unreadable", Level.UNKNOWN, f"sensors that give nothing: {named}")


def temperature(sample: DeviceSample, environ: Mapping[str, str]) -> Finding:
    """Names the sensors that count, hottest first."""
    counting = sorted(sample.processor_zones, key=lambda zone: -zone.temperature_celsius)
    others = len(sample.thermal_zones) - len(counting)
    if not counting:
        seen = (
            f"; of {counted(others, 'other sensor')} one may be named in {PREFIX}PROCESSOR_ZONES"
            if others
            else ""
        )
        text = f"no sensor of the processor: {_meaning('TEMPERATURE', environ)}; {_REPORT}{seen}"
        return Finding("temperature", Level.UNKNOWN, text)
    text = ", ".join(
        f"{zone.name} {zone.temperature_celsius:.0f} °C" for zone in counting[:_MAX_NAMES]
    )
    if len(counting) > _MAX_NAMES:
        text += f" and {len(counting) - _MAX_NAMES} more"
    if others:
        text += f"; {counted(others, 'sensor')} of other parts"
    return Finding("temperature", Level.OK, text)


def memory_use(sample: DeviceSample, environ: Mapping[str, str]) -> Finding:
    """Says whether the share of memory in use is known."""
    share = sample.memory_used_share
    if share is None:
        text = f"cannot be read: {_meaning('MEMORY', environ)}"
        return Finding("memory in use", Level.UNKNOWN, text)
    return Finding("memory in use", Level.OK, f"{share * 100:.0f} %")


def stalls(sample: DeviceSample) -> Finding:
    """Says whether waits for memory are known."""
    if sample.memory_stall is None:
        text = "the kernel does not count them: memory is judged by its use alone"
        return Finding("memory stalls", Level.UNKNOWN, text)
    return Finding("memory stalls", Level.OK, f"{sample.memory_stall * 100:.0f} % of the time")


def battery(sample: DeviceSample, environ: Mapping[str, str]) -> Finding:
    """Says whether there is a battery whose charge can be read."""
    if sample.has_battery is False:
        return Finding("battery", Level.OK, "none: mains power")
    if sample.battery_charge is None:
        text = f"cannot be read: {_meaning('BATTERY', environ)}; {_REPORT}"
        return Finding("battery", Level.UNKNOWN, text)
    state = sample.battery_state.name.lower().replace("_", " ") if sample.battery_state else ""
    text = f"{sample.battery_charge * 100:.0f} %, {state or 'unknown whether it discharges'}"
    return Finding("battery", Level.OK, f"{text} ({sample.battery_sensor})")


def frequency(sample: DeviceSample) -> Finding:
    """Says whether the processor's frequency can be read; nothing depends on it."""
    now_hz, most_hz = sample.cpu_frequency_hz, sample.cpu_max_frequency_hz
    if now_hz is None or most_hz is None:
        return Finding("frequency", Level.UNKNOWN, "cannot be read; nothing depends on it")
    return Finding(
        "frequency", Level.OK, f"{now_hz / 1e9:.1f} GHz now, {most_hz / 1e9:.1f} at most"
    )


def gpus(root: Path, sample: DeviceSample) -> Iterator[Finding]:
    """Names NVIDIA GPUs, and says what is missing to read those whose driver is there."""
    for gpu in sample.gpus:
        celsius = gpu.temperature_celsius
        heat = "temperature unknown" if celsius is None else f"{celsius:.0f} °C"
        yield Finding(f"GPU {gpu.index}", Level.OK, f"{gpu.name}, {heat}")
    if not sample.gpus and (root / "proc/driver/nvidia/version").exists():
        text = f"the NVIDIA driver is there and cannot be read: run `{install_command('nvidia')}`"
        yield Finding("GPU", Level.UNKNOWN, text)


def _meaning(dimension: str, environ: Mapping[str, str]) -> str:
    setting = _UNKNOWN.format(dimension)
    return f"unknown, taken as {environ.get(setting) or 'cautious'} ({setting})"


def _sample(root: Path, environ: Mapping[str, str], unreadable: dict[str, str]) -> DeviceSample:
    def setting(name: str, default: str) -> str:
        return environ.get(PREFIX + name) or default

    files = SensorFiles(root, time.monotonic, on_unreadable=unreadable.__setitem__)
    command = shutil.which(setting("TERMUX_COMMAND", TERMUX_COMMAND))
    termux = TermuxBattery(command, on_unreadable=unreadable.__setitem__) if command else None
    if termux is not None:
        asyncio.run(termux.read())
    device = Device(
        files,
        processor_names=split_names(setting("PROCESSOR_ZONES", PROCESSOR_ZONES)),
        fallback_names=split_names(setting("FALLBACK_ZONES", FALLBACK_ZONES)),
        run_directory=None,
        termux=termux,
        clock=time.monotonic,
    )
    return device.sample()
