"""Temperatures: which sensors count, and what unusable readings become."""

from __future__ import annotations

import errno

import pytest
from structlog.testing import capture_logs

from services.monitor.probes.thermal import ThermalProbe


def test_no_sensor_at_all_is_unknown_N01(device):
    sample = device.sample()
    assert sample.temperature_celsius is None
    assert sample.thermal_zones == []


def test_thermal_zones_serve_where_hwmon_has_nothing_N01(device, sysfs):
    sysfs.add_zone(0, "cpu-thermal", 51234)
    assert device.sample().temperature_celsius == pytest.approx(51.234)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENODEV, errno.EBUSY, errno.EINVAL])
def test_an_unreadable_sensor_hides_no_other_N02(device, sysfs, number):
    broken = sysfs.add_zone(0, "x86_pkg_temp", 90000)
    sysfs.add_zone(1, "cpu-thermal", 41000)
    sysfs.add_monitor(0, "coretemp", 43000, label="Core 0")
    sysfs.fail(broken, number)
    with capture_logs() as logs:
        sample = device.sample()
    assert sample.temperature_celsius == 43.0
    assert [zone.name for zone in sample.thermal_zones] == ["cpu_thermal", "coretemp_core_0"]
    warning = {"event": "sensor_unreadable", "cause": errno.errorcode[number]}
    assert [log["sensor"] for log in logs if warning.items() <= log.items()] == [broken]


def test_a_warning_comes_at_most_once_a_minute_for_each_sensor_N02(device, sysfs, clock):
    for index in range(2):
        sysfs.fail(sysfs.add_zone(index, "cpu-thermal", 40000), errno.EIO)
    with capture_logs() as logs:
        for _ in range(60):
            device.sample()
            clock.advance(1.0)
    assert len(logs) == 2
    with capture_logs() as logs:
        device.sample()
    assert len(logs) == 2


@pytest.mark.parametrize("text", ["", "N/A", "-274000", "999999", "nan", "inf", "0x10", "\x00"])
def test_an_implausible_value_counts_as_missing_N03(device, sysfs, text):
    sysfs.add_monitor(0, "coretemp", text)
    sysfs.add_monitor(0, "coretemp", 55000, number=2)
    assert device.sample().temperature_celsius == 55.0
    sysfs.remove("sys/class/hwmon/hwmon0/temp2_input")
    assert device.sample().temperature_celsius is None


@pytest.mark.parametrize(("text", "celsius"), [("-40000", -40.0), ("0", 0.0), ("150000", 150.0)])
def test_the_plausible_range_includes_its_ends_N03(device, sysfs, text, celsius):
    sysfs.add_zone(0, "cpu-thermal", text)
    assert device.sample().temperature_celsius == celsius


def test_no_particular_sensor_is_required_N09(device, sysfs):
    """An ARM board has no coretemp."""
    sysfs.add_zone(0, "soc-thermal", 39500)
    assert device.sample().temperature_celsius == 39.5


def test_the_hottest_sensor_need_not_be_the_processor_N10(device, sysfs):
    sysfs.add_monitor(0, "nvme", 84850, label="Composite")
    sysfs.add_monitor(1, "acpitz", 70000)
    sysfs.add_monitor(2, "coretemp", 30000, label="Package id 0")
    sysfs.add_monitor(3, "iwlwifi_1", 77000)
    sysfs.add_monitor(4, "radeon", 79000)
    sysfs.add_zone(0, "acpitz", 71000)
    sample = device.sample()
    assert sample.temperature_celsius == 30.0
    assert [zone.name for zone in sample.processor_zones] == ["coretemp_package_id_0"]
    assert len(sample.thermal_zones) == 6


def test_disks_and_radios_alone_say_nothing_about_the_processor_N10(device, sysfs):
    sysfs.add_monitor(0, "nvme", 84850)
    sysfs.add_monitor(1, "iwlwifi_1", 77000)
    assert device.sample().temperature_celsius is None


def test_the_name_list_can_be_overridden_N10(files, sysfs):
    sysfs.add_zone(0, "My-Special.Zone", 61000)
    sysfs.add_zone(1, "cpu-thermal", 30000)
    zones = ThermalProbe(files, ["my_special*"], []).read()
    roles = {zone.name: zone.role.name for zone in zones}
    assert roles == {"my_special_zone": "PROCESSOR", "cpu_thermal": "OTHER"}


@pytest.mark.parametrize("name", ["cpu-thermal", "cpu_thermal", "CPU-Thermal"])
def test_names_are_normalised_N11(device, sysfs, name):
    sysfs.add_zone(0, name, 43800)
    [zone] = device.sample().processor_zones
    assert (zone.name, zone.temperature_celsius) == ("cpu_thermal", 43.8)


def test_a_zone_without_a_type_is_the_fallback_N13(device, sysfs):
    sysfs.add_zone(1, None, 47000)
    assert device.sample().temperature_celsius == 47.0


def test_emergency_trip_points_are_read(device, sysfs):
    trips = {"passive": 70000, "critical": 105000, "hot": 95000, "active": 50000}
    sysfs.add_zone(0, "x86_pkg_temp", 40000, trips)
    sysfs.add_zone(1, "cpu-thermal", 40000, {"critical": -274000})
    sysfs.add_zone(2, "cpu-thermal", 40000, {"critical": 0})
    assert [zone.trip_celsius for zone in device.sample().thermal_zones] == [95.0, None, None]


def test_a_directory_that_is_none_hides_nothing(device, sysfs):
    sysfs.write("sys/class/hwmon", "a file")
    sysfs.add_zone(0, "cpu-thermal", 40000)
    assert device.sample().temperature_celsius == 40.0
