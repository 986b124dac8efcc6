"""Pressure levels: thresholds, hysteresis, dwell, and what holds for every history."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.monitor.pressure import PressureLevel, Reading, SourcePressure, Thresholds

DWELL_S = 10.0
HEAT = Thresholds(elevated=45.0, critical=60.0, band=5.0, dwell_s=DWELL_S)
CHARGE = Thresholds(elevated=0.2, critical=0.1, band=0.03, dwell_s=DWELL_S, is_low_bad=True)

# A busy machine makes no example wrong.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
celsius = st.floats(-40.0, 150.0)
in_band = st.floats(55.0, 59.99)


def run(values, step_s=1.0, thresholds=HEAT):
    """The level after each reading, one a step."""
    source = SourcePressure(thresholds)
    levels = []
    for index, value in enumerate(values):
        reading = None if value is None else Reading(sensor="s", judged=value, shown=value)
        source.update(reading, index * step_s)
        levels.append(source.level)
    return levels


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


def test_a_battery_recovers_only_beyond_its_band():
    levels = run([0.5, 0.2, 0.19, 0.09] + [0.12] * 15 + [0.229] * 15 + [0.24] * 12, 1.0, CHARGE)
    assert [level.name for level in levels] == (
        ["NORMAL", "NORMAL", "ELEVATED", "CRITICAL"]
        + ["CRITICAL"] * 25
        + ["ELEVATED"] * 15
        + ["NORMAL"] * 2
    )


@unhurried
@given(st.floats(-40.0, 150.0), st.floats(0.0, 20.0), st.floats(0.0, 30.0))
def test_one_degree_to_and_fro_changes_at_most_twice_a_minute_F19(middle, band, dwell_s):
    """Even without a band: within a dwell, a reading that comes back is no calm."""
    thresholds = Thresholds(
        elevated=45.0, critical=60.0, band=band, dwell_s=max(dwell_s, 2.0 if band < 2.0 else 0.0)
    )
    levels = run([middle + (index % 2) for index in range(60)], 1.0, thresholds)
    assert sum(before != after for before, after in pairwise(levels)) <= 2


@unhurried
@given(st.lists(st.one_of(st.none(), st.floats(0.0, 1.0)), max_size=60))
def test_unknown_is_where_nothing_is_read_and_nowhere_else(values):
    for value, level in zip(values, run(values, 1.0, CHARGE), strict=True):
        assert (level is PressureLevel.UNKNOWN) == (value is None)


@unhurried
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), max_size=80))
def test_an_emptier_battery_never_gives_a_lower_level(pairs):
    full = run([max(pair) for pair in pairs], 1.0, CHARGE)
    empty = run([min(pair) for pair in pairs], 1.0, CHARGE)
    assert all(low <= high for low, high in zip(full, empty, strict=True))


@unhurried
@given(st.lists(in_band, max_size=60), st.booleans(), st.floats(0.1, 30.0))
def test_no_flapping_inside_the_band(values, was_critical, step_s):
    start = 60.0 if was_critical else 50.0
    levels = run([start, *values], step_s)
    assert len(set(levels)) == 1


@unhurried
@given(st.lists(st.tuples(celsius, st.floats(0.0, 50.0)), max_size=80), st.floats(0.1, 12.0))
def test_a_worse_history_never_gives_a_lower_level(pairs, step_s):
    mild = run([value for value, _ in pairs], step_s)
    worse = run([value + extra for value, extra in pairs], step_s)
    assert all(low <= high for low, high in zip(mild, worse, strict=True))


@unhurried
@given(st.lists(st.one_of(st.none(), celsius), max_size=60))
def test_a_calm_device_recovers_after_one_dwell(values):
    levels = run([*values, *[39.9] * 11])
    assert levels[-1] is PressureLevel.NORMAL


@unhurried
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
