"""The operator reports what outside sources measure, through a real gateway to a real monitor."""

from __future__ import annotations

import math

import pytest

from edgelora.errors import (
    InvalidRequestError,
    ServiceUnavailableError,
)
from edgelora.v1.monitor_service_pb2 import BatteryState, PressureLevel

pytestmark = pytest.mark.integration

UNKNOWN = PressureLevel.PRESSURE_LEVEL_UNKNOWN
ELEVATED = PressureLevel.PRESSURE_LEVEL_ELEVATED
CRITICAL = PressureLevel.PRESSURE_LEVEL_CRITICAL
DISCHARGING = BatteryState.BATTERY_STATE_DISCHARGING


@pytest.fixture
async def node(bench):
    """A gateway with a monitor whose device has no sensor."""
    bench.start_monitor(HOLD="60s")
    await bench.start()
    return bench


async def wait_for_status(client, is_true):
    """Asks until the condition on the status holds; the test's own limit ends the wait."""
    while not is_true(status := await client.status()):
        pass
    return status


async def test_a_report_is_in_the_status_of_every_tenant(node):
    client, admin = await node.client(), await node.admin()
    status = await wait_for_status(client, lambda status: status.HasField("pressure"))
    assert status.pressure.temperature.level == UNKNOWN
    await admin.report_device(
        "vehicle",
        battery_charge=0.09,
        battery_state=DISCHARGING,
        temperatures={"cabin": 47.0, "outside": 90.0},
    )
    status = await wait_for_status(client, lambda status: status.pressure.battery.level == CRITICAL)
    assert status.pressure.temperature.level == ELEVATED
    assert status.pressure.temperature.sensor == "vehicle/cabin"
    assert "vehicle at 9.0 %, discharging" in status.pressure.battery.explanation
    assert list(status.device.reporting_sources) == ["vehicle"]
    await admin.withdraw_device("vehicle")
    status = await wait_for_status(client, lambda status: status.pressure.battery.level == UNKNOWN)
    assert list(status.device.reporting_sources) == []


@pytest.mark.parametrize(
    ("source", "readings", "field"),
    [
        ("", {"battery_charge": 0.5}, "report.source"),
        ("../x", {"battery_charge": 0.5}, "report.source"),
        ("vehicle", {}, "report.temperatures"),
        ("vehicle", {"battery_charge": math.nan}, "report.battery_charge"),
        ("vehicle", {"temperatures": {"cabin": 1e9}}, "report.temperatures[0].temperature_celsius"),
        ("memory_stall", {"battery_charge": 0.5}, "report.source"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_kept(node, source, readings, field):
    client, admin = await node.client(), await node.admin()
    with pytest.raises(InvalidRequestError) as caught:
        await admin.report_device(source, **readings)
    assert caught.value.field == field
    status = await wait_for_status(client, lambda status: status.HasField("device"))
    assert list(status.device.reporting_sources) == []


async def test_without_a_monitor_the_operator_is_told_and_the_state_is_absent(gateway):
    client, admin = await gateway.client(), await gateway.admin()
    with pytest.raises(ServiceUnavailableError, match="monitor"):
        await admin.report_device("vehicle", battery_charge=0.5)
    status = await client.status()
    assert not status.HasField("pressure")


async def test_a_monitor_that_hangs_does_not_answer_either(node):
    admin = await node.admin()
    await admin.report_device("vehicle", battery_charge=0.5)
    node.monitor.pause()
    with pytest.raises(ServiceUnavailableError, match="the monitor does not answer: try again"):
        await admin.report_device("vehicle", battery_charge=0.5)
    node.monitor.resume()
    await admin.report_device("vehicle", battery_charge=0.5)
