"""A real monitor process and sources outside of its device."""

from __future__ import annotations

import pytest

from edgelora.errors import InvalidRequestError, ResourcePressureError, UnauthenticatedError
from edgelora.v1 import monitor_service_pb2 as pb
from services.chassis.sealing import Sealer, boot_clock_s

pytestmark = pytest.mark.integration

UNKNOWN = pb.PressureLevel.PRESSURE_LEVEL_UNKNOWN
NORMAL = pb.PressureLevel.PRESSURE_LEVEL_NORMAL
ELEVATED = pb.PressureLevel.PRESSURE_LEVEL_ELEVATED
CRITICAL = pb.PressureLevel.PRESSURE_LEVEL_CRITICAL
DISCHARGING = pb.BatteryState.BATTERY_STATE_DISCHARGING


def temperatures(**celsius):
    return [
        pb.ReportedTemperature(name=name, temperature_celsius=value)
        for name, value in celsius.items()
    ]


@pytest.fixture
async def vehicle(bench):
    """A cool device with a monitor that believes a report for a minute."""
    bench.sysfs.add_zone(0, "cpu-thermal", 30000)
    await bench.start(HOLD="60s")
    return bench


async def test_the_worst_of_device_and_vehicle_counts_and_says_why(vehicle):
    watch = vehicle.watch()
    await watch.until(temperature=NORMAL)
    await vehicle.report(
        source="vehicle",
        battery_charge=0.18,
        battery_state=DISCHARGING,
        temperatures=temperatures(cabin=47.0, outside=90.0),
    )
    response = await watch.until(temperature=ELEVATED, battery=ELEVATED)
    temperature, battery = response.pressure.temperature, response.pressure.battery
    assert (temperature.sensor, temperature.reading, temperature.threshold) == (
        "vehicle/cabin",
        47.0,
        45.0,
    )
    assert temperature.explanation.endswith("s: vehicle/cabin at 47.0 °C, 45.0 °C or more")
    assert temperature.held.ToSeconds() < 60
    assert (battery.sensor, battery.reading, battery.threshold) == ("vehicle", 0.18, 0.2)
    assert list(response.snapshot.reporting_sources) == ["vehicle"]
    assert response.snapshot.temperature_celsius == 30.0  # of the device

    await vehicle.report(source="vehicle", is_withdrawn=True)
    response = await watch.until(temperature=NORMAL, battery=UNKNOWN)
    assert not response.pressure.temperature.HasField("threshold")
    assert list(response.snapshot.reporting_sources) == []


async def test_a_source_that_falls_silent_is_unknown_F06(bench):
    bench.sysfs.add_zone(0, "cpu-thermal", 30000)
    await bench.start()  # a reading counts for 500 ms
    watch = bench.watch()
    await watch.until(temperature=NORMAL)
    await bench.report(source="vehicle", temperatures=temperatures(cabin=62.0))
    await watch.until(temperature=CRITICAL)
    response = await watch.until(temperature=UNKNOWN)
    temperature = response.pressure.temperature
    assert not temperature.HasField("reading")
    assert temperature.explanation.endswith("vehicle/cabin gives no reading any more")
    assert list(response.snapshot.reporting_sources) == []
    await bench.report(source="vehicle", is_withdrawn=True)
    await watch.until(temperature=NORMAL)


async def test_only_a_fresh_seal_of_this_node_is_believed(vehicle):
    watch = vehicle.watch()
    await watch.until(temperature=NORMAL)
    hot = {"source": "vehicle", "temperatures": temperatures(cabin=90.0)}
    with pytest.raises(UnauthenticatedError):
        await vehicle.report(Sealer(b"another key of at least 32 bytes"), **hot)
    with pytest.raises(UnauthenticatedError):
        await vehicle.report(expires_at_boot_s=boot_clock_s() - 1.0, **hot)
    response = await vehicle.stub.GetSnapshot(pb.GetSnapshotRequest(), timeout=10)
    assert response.pressure.temperature.level == NORMAL
    assert list(response.snapshot.reporting_sources) == []


async def test_bounds_are_kept_whoever_sealed(vehicle):
    with pytest.raises(InvalidRequestError, match=r"report\.temperatures "):
        await vehicle.report(source="vehicle")
    for taken in ("cpu_thermal", "memory_stall"):
        with pytest.raises(InvalidRequestError, match=r"report\.source "):
            await vehicle.report(source=taken, temperatures=temperatures(cabin=20.0))
    for number in range(16):
        await vehicle.report(source=f"s{number}", temperatures=temperatures(cabin=20.0))
    with pytest.raises(ResourcePressureError):
        await vehicle.report(source="s16", temperatures=temperatures(cabin=20.0))
    snapshot = await vehicle.snapshot()
    assert len(snapshot.reporting_sources) == 16
