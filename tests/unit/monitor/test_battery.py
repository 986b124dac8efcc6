"""The battery: what is read, and what each state means for the pressure."""

from __future__ import annotations

import errno

import pytest

from services.monitor.pressure import PressureLevel
from services.monitor.sample import BatteryState


@pytest.fixture
def level(device, pressure_of):
    """The battery's level of the device as it is now, with no past."""
    return lambda: pressure_of(device.sample()).battery.level


def test_no_power_supply_class_is_unknown(device, level):
    assert device.sample().has_battery is None
    assert level() is PressureLevel.UNKNOWN


def test_a_device_without_a_battery_runs_on_mains(device, sysfs, level):
    sysfs.add_supply("AC", type="Mains", online=1)
    sample = device.sample()
    assert sample.has_battery is False
    assert sample.battery_charge is None
    assert level() is PressureLevel.NORMAL


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("Charging", BatteryState.CHARGING),
        ("Discharging", BatteryState.DISCHARGING),
        ("Full", BatteryState.FULL),
        ("Not charging", BatteryState.NOT_CHARGING),
        ("Unknown", BatteryState.UNKNOWN),
        ("Something new", BatteryState.UNKNOWN),
    ],
)
def test_every_status_has_a_state_N06(device, sysfs, status, state):
    sysfs.add_supply("BAT0", type="Battery", capacity=80, status=status)
    assert device.sample().battery_state is state


@pytest.mark.parametrize("status", ["Not charging", "Unknown", "Full", "Charging", "Discharging"])
def test_a_full_battery_is_never_low_N06(sysfs, level, status):
    sysfs.add_supply("BAT0", type="Battery", capacity=100, status=status)
    assert level() is PressureLevel.NORMAL


def test_an_unknown_status_is_no_discharge_N06(sysfs, level):
    sysfs.add_supply("BAT0", type="Battery", capacity=15, status="Unknown")
    assert level() is PressureLevel.UNKNOWN
    sysfs.write("sys/class/power_supply/BAT0/status", "Not charging")
    assert level() is PressureLevel.NORMAL


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [(20, "NORMAL"), (19, "ELEVATED"), (10, "ELEVATED"), (9, "CRITICAL"), (0, "CRITICAL")],
)
def test_a_low_battery_that_discharges(sysfs, level, capacity, expected):
    sysfs.add_supply("BAT0", type="Battery", capacity=capacity, status="Discharging")
    assert level().name == expected


def test_another_file_that_is_empty_hides_nothing_N07(device, sysfs):
    sysfs.add_supply(
        "BAT0", type="Battery", capacity=57, status="Discharging", current_now="", power_now=""
    )
    sample = device.sample()
    assert sample.battery_charge == 0.57
    assert sample.battery_state is BatteryState.DISCHARGING
    assert sample.battery_power_w is None


@pytest.mark.parametrize("seconds", [-2, -1, 4294967295])
def test_the_remaining_time_is_never_used_N08(device, sysfs, seconds):
    sysfs.add_supply("BAT0", type="Battery", capacity=57, status="Discharging")
    before = device.sample()
    sysfs.add_supply("BAT0", time_to_empty_now=seconds, time_to_full_now=seconds)
    after = device.sample()
    assert before.battery_charge == after.battery_charge
    assert before.battery_state is after.battery_state


def test_an_unreadable_capacity_is_unknown_not_empty(device, sysfs, level):
    sysfs.add_supply("BAT0", type="Battery", capacity=57, status="Discharging")
    sysfs.fail("sys/class/power_supply/BAT0/capacity", errno.ENODEV)
    sample = device.sample()
    assert (sample.has_battery, sample.battery_charge) == (True, None)
    assert level() is PressureLevel.UNKNOWN


def test_charge_from_energy_where_capacity_is_missing(device, sysfs):
    sysfs.add_supply(
        "BAT0", type="Battery", energy_now=10_000_000, energy_full=40_000_000, status="Full"
    )
    assert device.sample().battery_charge == 0.25


def test_a_supply_that_does_not_say_what_it_is_may_be_the_battery(device, sysfs, level):
    sysfs.add_supply("BAT0", type="Battery", capacity=57, status="Discharging")
    sysfs.fail("sys/class/power_supply/BAT0/type", errno.EIO)
    assert device.sample().has_battery is None
    assert level() is PressureLevel.UNKNOWN


def test_the_batteries_of_mice_do_not_count(device, sysfs):
    sysfs.add_supply("hidpp_battery_0", type="Battery", scope="Device", capacity=5)
    sysfs.add_supply("BAT1", type="Battery", present=0, capacity=5)
    assert device.sample().has_battery is False


def test_two_batteries(device, sysfs):
    sysfs.add_supply("BAT0", type="Battery", capacity=40, status="Unknown", power_now=3_000_000)
    sysfs.add_supply(
        "BAT1",
        type="Battery",
        capacity=80,
        status="Discharging",
        current_now=-500_000,
        voltage_now=8_000_000,
    )
    sample = device.sample()
    assert sample.battery_charge == pytest.approx(0.6)
    assert sample.battery_state is BatteryState.DISCHARGING
    assert sample.battery_power_w == pytest.approx(7.0)
