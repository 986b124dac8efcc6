"""Traces of a device replayed through probes, gaps and pressure, one row at a time.

A row of traces/*.csv holds for so many seconds: the readings, as a driver writes them or as the
error it fails with, and the level each dimension must have in every one of these seconds.
"""

from __future__ import annotations

import csv
import errno
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.sampler_bench import SamplerBench

TRACES = sorted((Path(__file__).parent / "traces").glob("*.csv"))
ZONE = "sys/class/thermal/thermal_zone0/temp"
BATTERY = "sys/class/power_supply/BAT0"
DIMENSIONS = ("temperature", "memory", "battery")


def apply(sysfs, row):
    """Lets the drivers say what the row holds."""
    if "celsius" in row:
        celsius = row["celsius"]
        sysfs.fail(ZONE, getattr(errno, celsius, None))
        if celsius[0].isdigit():
            celsius = round(float(celsius) * 1000)
        sysfs.add_zone(0, "cpu-thermal", celsius)
    if "capacity" in row:
        sysfs.add_supply("BAT0", type="Battery", capacity=row["capacity"], status=row["status"])
    if "used_percent" in row:
        sysfs.set_memory(total_kib=1000, available_kib=1000 - 10 * int(row["used_percent"]))
        sysfs.set_stall("memory", float(row["stall_percent"]))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
async def test_every_second_has_its_level_F19(path, sysfs, device, config, clock):
    bench = SamplerBench(device.sample, config, clock)
    levels = []
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            apply(sysfs, row)
            for _ in range(int(row["seconds"])):
                await bench.tick()
                for dimension in DIMENSIONS:
                    level = bench.levels[dimension].name
                    assert level == row.get(dimension, "UNKNOWN"), f"{path.name}:{number}"
                levels.append(tuple(bench.levels.values()))
    assert len(set(levels)) > 1
    if path.stem == "flapping":
        changes = [before != after for before, after in pairwise(levels)]
        assert max(sum(changes[start : start + 60]) for start in range(len(changes))) <= 2


def test_there_is_a_trace_of_each_kind():
    names = {path.stem for path in TRACES}
    assert names == {"draining", "flapping", "heating", "memory_filling", "sensor_loss"}
