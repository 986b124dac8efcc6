"""What an outside source may report."""

from __future__ import annotations

import math

import pytest

from edgelora.errors import InvalidRequestError
from edgelora.v1.monitor_service_pb2 import BatteryState, DeviceReport, ReportedTemperature
from services.chassis.device_report import MAX_TEMPERATURES, check_device_report


def temperature(name="cabin", celsius=20.0):
    return ReportedTemperature(name=name, temperature_celsius=celsius)


def report(**fields):
    return DeviceReport(**{"source": "vehicle", "temperatures": [temperature()], **fields})


@pytest.mark.parametrize(
    "good",
    [
        report(),
        report(battery_charge=0.0, battery_state=BatteryState.BATTERY_STATE_DISCHARGING),
        report(battery_charge=1.0, temperatures=[]),
        report(battery_state=BatteryState.BATTERY_STATE_CHARGING, temperatures=[]),
        report(temperatures=[temperature(str(n), n) for n in range(MAX_TEMPERATURES)]),
        report(temperatures=[temperature("low", -40.0), temperature("high", 150.0)]),
        DeviceReport(source="a" * 64, is_withdrawn=True),
    ],
)
def test_what_is_within_its_bounds_is_taken(good):
    check_device_report(good)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (report(source=""), "source"),
        (report(source="a" * 65), "source"),
        (report(source="a/b"), "source"),
        (report(source="ve\0hicle"), "source"),
        (report(source="véhicule"), "source"),
        (report(battery_charge=-0.01), "battery_charge"),
        (report(battery_charge=18.0), "battery_charge"),
        (report(battery_charge=math.nan), "battery_charge"),
        (report(battery_state=77), "battery_state"),
        (report(temperatures=[]), "temperatures"),
        (
            report(temperatures=[temperature(str(n)) for n in range(MAX_TEMPERATURES + 1)]),
            "temperatures",
        ),
        (report(temperatures=[temperature(""), temperature()]), "temperatures[0].name"),
        (report(temperatures=[temperature(), temperature()]), "temperatures[1].name"),
        (report(temperatures=[temperature(celsius=-40.1)]), "temperatures[0].temperature_celsius"),
        (report(temperatures=[temperature(celsius=150.1)]), "temperatures[0].temperature_celsius"),
        (
            report(temperatures=[temperature(celsius=math.nan)]),
            "temperatures[0].temperature_celsius",
        ),
        (report(is_withdrawn=True), "is_withdrawn"),
    ],
)
def test_the_field_that_is_wrong_is_named(bad, field):
    with pytest.raises(InvalidRequestError) as caught:
        check_device_report(bad)
    assert caught.value.field == f"report.{field}"
    assert caught.value.message.startswith(f"report.{field} ")
