"""Clock rates, utilisation, memory and its limits, stalls."""

from __future__ import annotations

from collections import namedtuple

import pytest

from services.monitor.messages import device_snapshot
from services.monitor.probes.processor import UtilisationProbe

GIB = 2**30


def test_no_clock_rates_are_unknown_N04(device):
    sample = device.sample()
    assert sample.cpu_frequency_hz is None
    assert sample.cpu_max_frequency_hz is None


@pytest.mark.parametrize("text", ["0", "", "<unknown>"])
def test_a_rate_of_zero_is_unknown_N05(device, sysfs, text):
    sysfs.add_cpu(0, text, text)
    sample = device.sample()
    assert (sample.cpu_frequency_hz, sample.cpu_max_frequency_hz) == (None, None)


def test_the_mean_is_over_the_cores_that_tell_N05(device, sysfs):
    sysfs.add_cpu(0, 1_500_000, 0)
    sysfs.add_cpu(1, 0, 2_400_000)
    sysfs.add_cpu(10, 2_500_000, 2_000_000)
    sample = device.sample()
    assert sample.cpu_frequency_hz == pytest.approx(2.0e9)
    assert sample.cpu_max_frequency_hz == pytest.approx(2.2e9)


def test_utilisation_needs_two_readings():
    times = namedtuple("times", "user system idle iowait guest")
    readings = iter([times(10, 10, 80, 0, 5), times(13, 11, 83, 1, 8), times(13, 11, 83, 1, 8)])
    probe = UtilisationProbe(lambda: next(readings))
    assert probe.read() is None
    assert probe.read() == pytest.approx(0.5)
    assert probe.read() is None


def test_memory_of_the_device(device, sysfs):
    sysfs.set_memory(total_kib=8 * 2**20, available_kib=2 * 2**20)
    sample = device.sample()
    assert sample.memory_total_bytes == 8 * GIB
    assert sample.memory_used_share == pytest.approx(0.75)


def test_memory_without_the_available_figure_is_unknown_in_use(device, sysfs):
    sysfs.set_memory(total_kib=2**20, available_kib=None)
    sample = device.sample()
    assert sample.memory_total_bytes == GIB
    assert (sample.memory_available_bytes, sample.memory_used_share) == (None, None)


def test_no_memory_figures_at_all(device):
    assert device.sample().memory_used_share is None


def test_a_containers_limit_counts_v2(device, sysfs):
    sysfs.set_memory(total_kib=16 * 2**20, available_kib=12 * 2**20)
    sysfs.write("proc/self/cgroup", "0::/box/inner")
    sysfs.write("sys/fs/cgroup/memory.max", "max")
    sysfs.write("sys/fs/cgroup/box/memory.max", GIB)
    sysfs.write("sys/fs/cgroup/box/memory.current", GIB * 3 // 4)
    sysfs.write("sys/fs/cgroup/box/memory.stat", f"anon 1\ninactive_file {GIB // 4}")
    sysfs.write("sys/fs/cgroup/box/inner/memory.max", "max")
    sample = device.sample()
    assert sample.memory_total_bytes == GIB
    assert sample.memory_available_bytes == GIB // 2


def test_a_containers_limit_counts_v1(device, sysfs):
    sysfs.set_memory(total_kib=16 * 2**20, available_kib=12 * 2**20)
    sysfs.write("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/abc")
    sysfs.write("sys/fs/cgroup/memory/memory.limit_in_bytes", GIB)
    sysfs.write("sys/fs/cgroup/memory/memory.usage_in_bytes", 2 * GIB)
    sample = device.sample()
    assert (sample.memory_total_bytes, sample.memory_available_bytes) == (GIB, 0)


def test_no_limit_is_written_in_many_ways(device, sysfs):
    sysfs.set_memory(total_kib=2**20, available_kib=2**19)
    sysfs.write("proc/self/cgroup", "4:memory:/\n0::/../..")
    sysfs.write("sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712)
    sysfs.write("sys/fs/cgroup/memory/memory.usage_in_bytes", GIB)
    sysfs.write("sys/fs/cgroup/memory.max", "max")
    assert device.sample().memory_total_bytes == GIB


@pytest.mark.parametrize("usage", [None, "", "many", -1, "9" * 5000, 2**63])
def test_a_container_that_does_not_say_what_it_uses_is_unknown_and_not_the_host(
    device, sysfs, usage
):
    sysfs.set_memory(total_kib=16 * 2**20, available_kib=12 * 2**20)
    sysfs.write("proc/self/cgroup", "0::/box")
    sysfs.write("sys/fs/cgroup/box/memory.max", GIB)
    if usage is not None:
        sysfs.write("sys/fs/cgroup/box/memory.current", usage)
    assert device.sample().memory_used_share is None


@pytest.mark.parametrize(
    ("total", "available"),
    [("9" * 5000, 5), (1000, "9" * 5000), (10**25, 5), (1000, 10**25), (1000, 1001), (0, 0)],
)
def test_absurd_memory_is_unknown_and_hides_nothing_else(device, sysfs, total, available):
    sysfs.add_zone(0, "cpu-thermal", 41000)
    sysfs.write("proc/meminfo", f"MemTotal: {total} kB\nMemAvailable: {available} kB")
    sample = device.sample()
    assert (sample.memory_used_share, sample.temperature_celsius) == (None, 41.0)
    device_snapshot(sample, num_cores=1, reporting_sources=[])  # fits the message


def test_an_absurd_limit_is_none_and_an_absurd_cache_nothing(device, sysfs):
    sysfs.set_memory(total_kib=2**20, available_kib=2**19)
    sysfs.write("proc/self/cgroup", "0::/box/inner")
    sysfs.write("sys/fs/cgroup/box/memory.max", "9" * 5000)
    sysfs.write("sys/fs/cgroup/box/inner/memory.max", GIB // 2)
    sysfs.write("sys/fs/cgroup/box/inner/memory.current", GIB // 2)
    sysfs.write("sys/fs/cgroup/box/inner/memory.stat", f"inactive_file {'9' * 5000}")
    sample = device.sample()
    assert (sample.memory_total_bytes, sample.memory_available_bytes) == (GIB // 2, 0)


def test_stalls(device, sysfs):
    sysfs.set_stall("memory", 12.5)
    sysfs.set_stall("io", 0.0)
    sysfs.write("proc/pressure/cpu", "nonsense")
    sample = device.sample()
    assert (sample.memory_stall, sample.io_stall, sample.cpu_stall) == (0.125, 0.0, None)
