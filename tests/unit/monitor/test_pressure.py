"""Pressure levels: thresholds, hysteresis, dwell, and what holds for every history."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.monitor.pressure import (
    DevicePressure,
    DimensionPressure,
    PressureLevel,
    Thresholds,
    temperature_severity,
)
from services.monitor.sample import DeviceSample, ThermalZone, ZoneRole

THRESHOLDS = Thresholds(elevated=45.0, critical=60.0, band=5.0)
DWELL_S = 10.0

celsius = st.floats(-40.0, 150.0)
in_band = st.floats(55.0, 59.99)


def run(values, step_s=1.0):
    """The level after each reading, one a step."""
    dimension = DimensionPressure(THRESHOLDS, DWELL_S)
    return [dimension.update(value, index * step_s) for index, value in enumerate(values)]


@pytest.mark.parametrize(
    ("value", "level"),
    [(44.9, "NORMAL"), (45.0, "ELEVATED"), (59.9, "ELEVATED"), (60.0, "CRITICAL")],
)
def test_thresholds_are_reached_at_their_value(value, level):
    assert run([value])[0].name == level


def test_levels_rise_at_once_and_fall_after_the_dwell():
    levels = run([20.0, 61.0] + [50.0] * 12 + [30.0] * 12)
    assert [level.name for level in levels] == (
        ["NORMAL", "CRITICAL"]
        + ["CRITICAL"] * 10
        + ["ELEVATED"] * 2
        + ["ELEVATED"] * 10
        + ["NORMAL"] * 2
    )


def test_a_spike_restarts_the_dwell():
    levels = run([61.0] + [50.0] * 9 + [57.0] + [50.0] * 10)
    assert set(levels) == {PressureLevel.CRITICAL}


def test_a_flapping_sensor_changes_at_most_twice_a_minute_F19():
    values = [60.0 + (1.0 if index % 2 else -1.0) for index in range(600)]
    levels = run(values)
    assert sum(before != after for before, after in pairwise(levels)) <= 1


def test_wild_swings_stay_at_the_worst_level_F19():
    levels = run([70.0 if index % 2 else 20.0 for index in range(600)])
    assert set(levels[1:]) == {PressureLevel.CRITICAL}


def test_unknown_is_its_own_level_and_no_calm():
    levels = run([61.0, None, 57.0] + [50.0] * 5 + [None] + [50.0] * 10)
    assert levels[1] is PressureLevel.UNKNOWN
    assert levels[2] is PressureLevel.CRITICAL
    assert levels[-1] is PressureLevel.CRITICAL


@given(st.lists(in_band, max_size=60), st.booleans(), st.floats(0.1, 30.0))
def test_no_flapping_inside_the_band(values, was_critical, step_s):
    start = 60.0 if was_critical else 50.0
    levels = run([start, *values], step_s)
    assert len(set(levels)) == 1


@given(st.lists(st.tuples(celsius, st.floats(0.0, 50.0)), max_size=80), st.floats(0.1, 12.0))
def test_a_worse_history_never_gives_a_lower_level(pairs, step_s):
    mild = run([value for value, _ in pairs], step_s)
    worse = run([value + extra for value, extra in pairs], step_s)
    assert all(low <= high for low, high in zip(mild, worse, strict=True))


@given(st.lists(st.one_of(st.none(), celsius), max_size=60))
def test_a_calm_device_recovers_after_one_dwell(values):
    levels = run([*values, *[39.9] * 11])
    assert levels[-1] is PressureLevel.NORMAL


@given(st.lists(celsius, min_size=1, max_size=120))
def test_the_level_is_at_least_what_the_reading_says_and_falls_no_faster_than_the_dwell(values):
    levels = run(values)
    for value, level in zip(values, levels, strict=True):
        assert level is PressureLevel.CRITICAL or value < 60.0
        assert level is not PressureLevel.NORMAL or value < 45.0
    falls = [index for index in range(1, len(levels)) if levels[index] < levels[index - 1]]
    for fall in falls:
        calm = values[max(0, fall - int(DWELL_S)) : fall + 1]
        assert len(calm) == DWELL_S + 1
        assert max(calm) < 55.0


def zone(temperature, trip=None):
    return ThermalZone(
        sensor="z",
        name="cpu",
        temperature_celsius=temperature,
        trip_celsius=trip,
        role=ZoneRole.PROCESSOR,
    )


def test_the_hardwares_own_trip_point_is_critical_whatever_the_settings_say():
    lenient = Thresholds(elevated=100.0, critical=120.0, band=5.0)
    assert temperature_severity([zone(94.0, 95.0)], lenient) == 94.0
    assert temperature_severity([zone(95.0, 95.0), zone(30.0)], lenient) == 120.0
    assert temperature_severity([], lenient) is None


def test_all_dimensions_of_an_unknown_device_are_unknown(config):
    pressure = DevicePressure(config.thresholds).update(DeviceSample(), 0.0)
    levels = {pressure.temperature, pressure.memory, pressure.battery}
    assert levels == {PressureLevel.UNKNOWN}


@pytest.mark.parametrize(
    ("share", "level"), [(0.79, "NORMAL"), (0.8, "ELEVATED"), (0.85, "CRITICAL")]
)
def test_memory(config, share, level):
    sample = DeviceSample(
        memory_total_bytes=10_000, memory_available_bytes=round(10_000 * (1 - share))
    )
    assert DevicePressure(config.thresholds).update(sample, 0.0).memory.name == level
