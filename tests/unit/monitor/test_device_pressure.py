"""Every dimension from all of its sources: the worst counts, and not knowing is worse than calm."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.monitor.config import MonitorConfig
from services.monitor.device_pressure import DevicePressure
from services.monitor.explanation import explain
from services.monitor.pressure import PressureLevel
from services.monitor.sample import (
    BatteryState,
    DeviceSample,
    ReportedReadings,
    ThermalZone,
    ZoneRole,
)

MAINS = DeviceSample(has_battery=False)
SILENT = None


def heat(celsius, trip=None, name="cpu", role=ZoneRole.PROCESSOR):
    zone = ThermalZone(
        sensor=name, name=name, temperature_celsius=celsius, trip_celsius=trip, role=role
    )
    return DeviceSample(thermal_zones=[zone])


def memory(share, stall=None):
    return DeviceSample(
        memory_total_bytes=10_000,
        memory_available_bytes=None if share is None else round(10_000 * (1 - share)),
        memory_stall=stall,
    )


def cabin(celsius):
    return {"vehicle": ReportedReadings(temperatures={"cabin": celsius})}


def vehicle_battery(charge, state=BatteryState.DISCHARGING):
    return {"vehicle": ReportedReadings(battery_charge=charge, battery_state=state)}


@pytest.fixture
def pressure(config, clock):
    """A pressure with a past: takes samples one second apart."""
    device = DevicePressure(config.thresholds, config.reported_zones, clock())

    def update(sample, reports=None):
        clock.advance(1.0)
        return device.update(sample, reports or {}, clock())

    return update


def test_all_dimensions_of_an_unknown_device_are_unknown_N01(pressure_of):
    assert set(pressure_of(DeviceSample()).levels.values()) == {PressureLevel.UNKNOWN}


def test_the_hardwares_own_trip_point_is_critical_whatever_the_settings_say(environ, clock):
    lenient = MonitorConfig.from_env(
        {
            **environ,
            "EDGELORA_MONITOR_TEMPERATURE_ELEVATED": "100",
            "EDGELORA_MONITOR_TEMPERATURE_CRITICAL": "120",
        }
    )
    for celsius, level in ((94.0, "NORMAL"), (95.0, "CRITICAL")):
        device = DevicePressure(lenient.thresholds, [], clock())
        state = device.update(heat(celsius, trip=95.0), {}, clock()).temperature
        assert (state.level.name, state.reading.shown) == (level, celsius)


@pytest.mark.parametrize(
    ("share", "stall", "level", "sensor"),
    [
        (0.79, None, "NORMAL", "memory_used"),
        (0.80, None, "ELEVATED", "memory_used"),
        (0.85, None, "CRITICAL", "memory_used"),
        (0.50, 0.09, "NORMAL", "memory_used"),
        (0.50, 0.10, "ELEVATED", "memory_stall"),
        (0.50, 0.40, "CRITICAL", "memory_stall"),
        (0.81, 0.40, "CRITICAL", "memory_stall"),
        (0.86, 0.20, "CRITICAL", "memory_used"),
        (None, 0.00, "UNKNOWN", ""),
        (None, 0.40, "CRITICAL", "memory_stall"),
    ],
)
def test_waits_for_memory_raise_the_level_and_never_lower_it(
    pressure_of, share, stall, level, sensor
):
    state = pressure_of(memory(share, stall)).memory
    assert (state.level.name, state.sensor) == (level, sensor)


def test_a_graphics_processor_counts_beside_the_processor(pressure_of):
    cool, hot = heat(30.0), heat(61.0, name="gpu0", role=ZoneRole.BESIDE)
    sample = DeviceSample(thermal_zones=[*cool.thermal_zones, *hot.thermal_zones])
    state = pressure_of(sample).temperature
    assert (state.level.name, state.sensor) == ("CRITICAL", "gpu0")


def test_the_worst_of_device_and_vehicle_counts(pressure_of):
    assert pressure_of(heat(30.0), cabin(47.0)).temperature.sensor == "vehicle/cabin"
    assert pressure_of(heat(30.0), cabin(47.0)).temperature.level.name == "ELEVATED"
    assert pressure_of(heat(61.0), cabin(47.0)).temperature.sensor == "cpu"
    assert pressure_of(MAINS, vehicle_battery(0.09)).battery.level.name == "CRITICAL"
    assert pressure_of(MAINS, vehicle_battery(0.5)).battery.level.name == "NORMAL"


def test_a_vehicle_stands_in_where_the_device_has_no_sensor(pressure_of):
    assert pressure_of(DeviceSample(), cabin(20.0)).temperature.level.name == "NORMAL"
    assert pressure_of(DeviceSample(), vehicle_battery(0.5)).battery.level.name == "NORMAL"


def test_a_name_that_does_not_count_changes_nothing(pressure_of):
    reports = {"vehicle": ReportedReadings(temperatures={"outside": 90.0})}
    assert pressure_of(heat(30.0), reports).temperature.level.name == "NORMAL"
    assert pressure_of(DeviceSample(), reports).temperature.level.name == "UNKNOWN"


def test_a_sensor_that_told_and_is_gone_makes_unknown_whatever_else_is_calm_F06(pressure):
    assert pressure(heat(30.0), cabin(20.0)).temperature.level.name == "NORMAL"
    state = pressure(DeviceSample(), cabin(20.0)).temperature
    assert (state.level.name, state.sensor) == ("UNKNOWN", "cpu")
    assert pressure(DeviceSample(), cabin(62.0)).temperature.level.name == "CRITICAL"


def test_no_other_sensor_stands_in_for_a_processors_that_is_lost_F06(pressure):
    """At 61 °C the sensor goes; the board's and a graphics processor's are cool."""
    pressure(heat(61.0))
    cool = DeviceSample(
        thermal_zones=[
            *heat(30.0, name="acpitz", role=ZoneRole.FALLBACK).thermal_zones,
            *heat(35.0, name="gpu0", role=ZoneRole.BESIDE).thermal_zones,
        ]
    )
    for _ in range(30):
        assert pressure(cool).temperature.level.name == "UNKNOWN"
    said = explain("temperature", pressure(cool).temperature, 0.0)
    assert "the processor's sensor gives no reading any more" in said
    hot = heat(46.0, name="gpu0", role=ZoneRole.BESIDE)
    assert pressure(hot).temperature.level.name == "CRITICAL"  # it was, and is not calm
    assert pressure(heat(30.0)).temperature.level.name == "CRITICAL"
    for _ in range(11):
        state = pressure(heat(30.0)).temperature
    assert state.level.name == "NORMAL"


@pytest.mark.parametrize("role", [ZoneRole.FALLBACK, ZoneRole.BESIDE])
def test_another_sensor_does_where_the_processors_never_told(pressure, role):
    assert pressure(heat(30.0, role=role)).temperature.level.name == "NORMAL"


def test_stalls_that_were_told_and_are_not_any_more_are_unknown_F06(pressure):
    assert pressure(memory(0.5, stall=0.45)).memory.level.name == "CRITICAL"
    for _ in range(30):
        state = pressure(memory(0.5)).memory
        assert (state.level.name, state.sensor) == ("UNKNOWN", "memory_stall")
    assert pressure(memory(0.9)).memory.level.name == "CRITICAL"


def test_a_source_that_leaves_out_what_it_told_is_unknown_until_it_is_withdrawn(pressure):
    pressure(heat(30.0), cabin(20.0))
    state = pressure(heat(30.0), vehicle_battery(0.5)).temperature
    assert (state.level.name, state.sensor) == ("UNKNOWN", "vehicle/cabin")
    assert pressure(heat(30.0)).temperature.level.name == "NORMAL"


def test_a_source_that_comes_back_after_it_was_withdrawn_has_no_past(pressure):
    assert pressure(heat(30.0), cabin(61.0)).temperature.level.name == "CRITICAL"
    pressure(heat(30.0))
    assert pressure(heat(30.0), cabin(20.0)).temperature.level.name == "NORMAL"


def test_a_low_battery_that_does_not_say_which_way_it_goes_is_unknown_N06(pressure_of):
    for state in (None, BatteryState.UNKNOWN):
        found = pressure_of(DeviceSample(), vehicle_battery(0.15, state)).battery
        assert (found.level.name, found.reading.shown) == ("UNKNOWN", 0.15)
        assert pressure_of(DeviceSample(), vehicle_battery(0.5, state)).battery.level.name == (
            "NORMAL"
        )


def test_the_time_at_a_level_starts_with_the_level_and_not_with_the_source(pressure, clock):
    since = pressure(heat(47.0), cabin(20.0)).temperature.since_s
    assert since == clock()
    assert pressure(heat(47.0), cabin(48.0)).temperature.since_s == since
    for _ in range(20):
        pressure(heat(30.0), cabin(48.0))
    state = pressure(heat(30.0), cabin(48.0)).temperature
    assert (state.sensor, state.since_s) == ("vehicle/cabin", since)


maybe_celsius = st.one_of(st.none(), st.floats(-40.0, 150.0))
modes = st.sampled_from(["absent", "silent", "told"])


@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.tuples(maybe_celsius, st.sampled_from(["absent", "silent", "told"]), maybe_celsius))
)
def test_an_unknown_source_is_never_normal(config, steps):
    """Whatever comes and goes: NORMAL needs a reading of every source that ever told, each below
    its threshold; a reading at a threshold always gives its level or a worse one."""
    device = DevicePressure(config.thresholds, config.reported_zones, 0.0)
    has_told = {"own": False, "vehicle": False}
    for second, (own, mode, celsius) in enumerate(steps):
        reports = {}
        if mode == "silent":
            reports = {"vehicle": SILENT}
        elif mode == "told":
            reports = {
                "vehicle": ReportedReadings() if celsius is None else cabin(celsius)["vehicle"]
            }
        told = {"own": own, "vehicle": celsius if mode == "told" else None}
        if mode == "absent":
            has_told["vehicle"] = False
        for name, value in told.items():
            has_told[name] |= value is not None
        sample = DeviceSample() if own is None else heat(own)
        level = device.update(sample, reports, float(second)).temperature.level
        known = [value for value in told.values() if value is not None]
        if level is PressureLevel.NORMAL:
            assert known and max(known) < 45.0
            assert all(told[name] is not None for name in told if has_told[name])
        if known and max(known) >= 60.0:
            assert level is PressureLevel.CRITICAL
        elif known and max(known) >= 45.0:
            assert level.severity >= PressureLevel.ELEVATED.severity
