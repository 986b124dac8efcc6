"""What a real monitor shows of its device, and how it names a process that leaks."""

import asyncio
import subprocess
import sys

import pytest

from tests.support.free_port import free_port
from tests.support.prometheus import families, samples, scrape

pytestmark = pytest.mark.integration

LEAK = """
import time
kept = []
while True:
    kept.append(bytes([1]) * 100_000)
    time.sleep(0.01)
"""


def reader(address):
    async def shown():
        return samples(await asyncio.to_thread(scrape, address))

    return shown


async def test_a_device_that_tells_nothing_has_no_series_and_no_zeros(bench):
    bench.sysfs.root.mkdir()
    address = f"127.0.0.1:{free_port()}"
    await bench.start(METRICS_ADDRESS=address)
    text = await asyncio.to_thread(scrape, address)
    values = samples(text)
    for name in (
        *("edgelora_temperature_celsius", "edgelora_cpu_frequency_hertz"),
        *("edgelora_memory_total_bytes", "edgelora_memory_available_bytes"),
        *("edgelora_battery_charge_ratio", "edgelora_battery_power_watts"),
        *("edgelora_battery_state", "edgelora_stall_ratio", "edgelora_zone_temperature_celsius"),
        *("edgelora_gpu_utilisation_ratio", "edgelora_service_resident_memory_bytes"),
    ):
        assert name in families(text)
        assert not [series for series in values if series.startswith(name)], name
    level = 'edgelora_pressure_level{dimension="temperature",level="%s"}'
    assert [values[level % each] for each in ("unknown", "normal")] == [1, 0]
    assert 0 <= values["edgelora_sample_age_seconds"] < 60


async def test_a_device_is_shown_as_it_is(bench):
    bench.sysfs.add_monitor(0, "coretemp", 51500, label="Package id 0")
    for number in range(100):
        bench.sysfs.add_monitor(1 + number, f"disk{number}", 40000)
    bench.sysfs.add_cpu(0, 1_800_000, 2_400_000)
    bench.sysfs.add_supply("BAT0", type="Battery", capacity=57, status="Discharging")
    bench.sysfs.set_memory(total_kib=1000, available_kib=400)
    bench.sysfs.set_stall("memory", 2.5)
    address = f"127.0.0.1:{free_port()}"
    await bench.start(METRICS_ADDRESS=address, HOLD="60s")
    values = await reader(address)()
    assert values["edgelora_temperature_celsius"] == 51.5
    assert values["edgelora_cpu_frequency_hertz"] == 1.8e9
    assert values["edgelora_cpu_max_frequency_hertz"] == 2.4e9
    assert values["edgelora_memory_available_bytes"] == 400 * 1024
    assert values["edgelora_battery_charge_ratio"] == 0.57
    assert values['edgelora_battery_state{state="discharging"}'] == 1
    assert values['edgelora_battery_state{state="full"}'] == 0
    assert values['edgelora_stall_ratio{resource="memory"}'] == 0.025
    level = 'edgelora_pressure_level{dimension="temperature",level="elevated"}'
    assert values[level] == 1
    zones = [series for series in values if series.startswith("edgelora_zone_temperature")]
    assert len(zones) == 48


@pytest.fixture
def two_processes():
    """Service -> process: one takes 100 KB every 10 ms, the other stays as it is."""
    codes = {"inference": LEAK, "gateway": "import time; time.sleep(600)"}
    started = {
        service: subprocess.Popen([sys.executable, "-c", code]) for service, code in codes.items()
    }
    yield started
    for process in started.values():
        process.kill()
        process.wait()


async def test_the_process_that_leaks_is_named_and_the_other_is_not_A15(bench, two_processes):
    """In a window of seconds."""
    bench.sysfs.root.mkdir()
    address = f"127.0.0.1:{free_port()}"
    for service, process in two_processes.items():
        (bench.run_directory / f"{service}.pid").write_text(str(process.pid))
    await bench.start(METRICS_ADDRESS=address, GROWTH_WINDOW="4s")
    snapshot = await bench.wait_for(
        lambda snapshot: any(each.is_growing for each in snapshot.processes)
    )
    told = {each.service: each for each in snapshot.processes}
    assert told["inference"].is_growing
    assert told["inference"].growth_bytes_per_hour > 2**30
    assert not told["gateway"].is_growing
    (line,) = bench.process.log("memory_grows_steadily")
    assert line["name"] == "inference"
    values = await reader(address)()
    assert values['edgelora_service_growing{service="inference"}'] == 1
    assert values['edgelora_service_growing{service="gateway"}'] == 0
    growth = "edgelora_service_growth_bytes_per_hour"
    assert values[f'{growth}{{service="inference"}}'] > 2**30
    assert values['edgelora_service_resident_memory_bytes{service="inference"}'] > 2**20
