"""The sampler: gaps are bridged for a while, then unknown; nothing makes it stop."""

from __future__ import annotations

import asyncio
import errno

import pytest
from structlog.testing import capture_logs

from services.monitor.history import History
from services.monitor.pressure import PressureLevel
from services.monitor.sample import DeviceSample, ReportedReadings
from tests.support.sampler_bench import SamplerBench


@pytest.fixture
def bench(device, config, clock):
    return SamplerBench(device.sample, config, clock)


async def test_one_missing_reading_keeps_the_last_for_three_seconds_N09(bench, sysfs):
    zone = sysfs.add_zone(0, "cpu-thermal", 41000)
    sysfs.add_supply("BAT0", type="Battery", capacity=57, status="Discharging")
    await bench.tick()
    sysfs.fail(zone, errno.EIO)
    sysfs.remove("sys/class/power_supply/BAT0/capacity")
    for _ in range(3):
        await bench.tick()
        assert bench.levels["temperature"] is PressureLevel.NORMAL
        assert bench.levels["battery"] is PressureLevel.NORMAL
    await bench.tick()
    assert bench.now.temperature_celsius is None
    assert bench.levels["temperature"] is PressureLevel.UNKNOWN
    assert bench.levels["battery"] is PressureLevel.UNKNOWN
    sysfs.fail(zone, None)
    await bench.tick()
    assert bench.levels["temperature"] is PressureLevel.NORMAL


async def test_a_battery_that_is_gone_on_one_call_in_ten_is_never_unknown_N09(bench, sysfs):
    battery = sysfs.add_supply("BAT0", type="Battery", capacity=57, status="Discharging")
    for index in range(50):
        for file in ("type", "capacity", "status"):
            sysfs.fail(f"{battery}/{file}", errno.ENODEV if index % 10 == 9 else None)
        await bench.tick()
        assert bench.levels["battery"] is PressureLevel.NORMAL


async def test_a_gap_of_the_processor_sensor_does_not_let_others_throttle_N10(bench, sysfs):
    package = sysfs.add_monitor(0, "coretemp", 30000)
    sysfs.add_zone(0, "acpitz", 70000)
    await bench.tick()
    sysfs.fail(package, errno.EBUSY)
    await bench.tick()
    assert bench.now.temperature_celsius == 30.0
    assert bench.levels["temperature"] is PressureLevel.NORMAL


async def test_a_probe_that_fails_unforeseen_costs_one_sample_N09(config, clock):
    samples = iter([DeviceSample(cpu_stall=0.5), None, DeviceSample(cpu_stall=0.25)])

    def read():
        sample = next(samples)
        if sample is None:
            raise RuntimeError("secret detail")
        return sample

    bench = SamplerBench(read, config, clock)
    await bench.tick()
    with capture_logs() as logs:
        await bench.tick()
    assert logs == [{"event": "sample_failed", "error_type": "RuntimeError", "log_level": "error"}]
    assert bench.now.cpu_stall == 0.5
    await bench.tick()
    assert bench.now.cpu_stall == 0.25


async def test_a_sampler_that_hangs_makes_everything_unknown(bench, sysfs):
    sysfs.add_zone(0, "cpu-thermal", 65000)
    sysfs.set_memory(total_kib=1000, available_kib=900)
    await bench.tick()
    assert bench.levels["temperature"] is PressureLevel.CRITICAL
    bench.clock.advance(3.0)
    bench.sampler.judge()
    assert set(bench.levels.values()) == {PressureLevel.UNKNOWN}
    assert bench.now == DeviceSample(thermal_zones=[])


async def test_a_change_is_logged_with_rule_reading_and_time(bench, sysfs):
    zone = sysfs.add_zone(0, "cpu-thermal", 44000)
    await bench.tick()
    sysfs.write(zone, 65000)
    with capture_logs() as logs:
        await bench.tick()
        await bench.tick()
    [change] = [log for log in logs if log["event"] == "pressure_changed"]
    assert change == {
        "event": "pressure_changed",
        "log_level": "warning",
        "dimension": "temperature",
        "before": "NORMAL",
        "now": "CRITICAL",
        "sensor": "cpu_thermal",
        "reading": 65.0,
        "threshold": 60.0,
        "explanation": "temperature CRITICAL for 0 s: cpu_thermal at 65.0 °C, 60.0 °C or more",
    }


async def test_a_report_counts_for_three_seconds_and_then_is_unknown_F06(bench, sysfs):
    sysfs.add_zone(0, "cpu-thermal", 41000)
    hot = ReportedReadings(temperatures={"cabin": 62.0})
    bench.reports.take("vehicle", hot, bench.clock())
    for _ in range(4):
        await bench.tick()
        assert bench.levels["temperature"] is PressureLevel.CRITICAL
    await bench.tick()
    assert bench.levels["temperature"] is PressureLevel.UNKNOWN
    assert bench.board.current.temperature.sensor == "vehicle/cabin"
    bench.reports.take("vehicle", hot, bench.clock())
    await bench.tick()
    assert bench.levels["temperature"] is PressureLevel.CRITICAL
    bench.reports.withdraw("vehicle")
    await bench.tick()
    assert bench.levels["temperature"] is PressureLevel.NORMAL


async def test_run_samples_by_itself_and_tells_of_the_first(bench):
    running = asyncio.create_task(bench.sampler.run())
    await bench.sampler.has_sampled.wait()
    assert len(bench.history) >= 1
    running.cancel()


def test_the_history_is_bounded():
    history = History(3)
    for second in range(10):
        history.append(DeviceSample(cpu_stall=second / 10), float(second))
    assert len(history) == 3
    assert [sample.cpu_stall for sample in history.since(8.0)] == [0.8, 0.9]
    assert history.highest(lambda sample: sample.cpu_stall, 0.0) == 0.9
    assert history.highest(lambda sample: sample.io_stall, 0.0) is None
