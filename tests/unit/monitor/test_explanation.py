"""The sentence that says which rule, which reading and since when."""

from __future__ import annotations

import pytest

from services.monitor.dimension import Dimension
from services.monitor.explanation import explain
from services.monitor.pressure import Reading, SourcePressure, Thresholds

HEAT = Thresholds(elevated=45.0, critical=60.0, band=5.0, dwell_s=10.0)
CHARGE = Thresholds(elevated=0.2, critical=0.1, band=0.03, dwell_s=10.0, is_low_bad=True)


def sentence(dimension, thresholds, readings, held_s=0.0):
    """After one reading a second; `held_s` later."""
    source, state = SourcePressure(thresholds), Dimension(0.0)
    second = 0
    for second, reading in enumerate(readings):
        source.update(reading, second)
        state.update([source] if source.last_sensor else [], second)
    return explain(dimension, state.state, second + held_s)


def celsius(value, **more):
    return Reading(sensor="cpu_thermal", judged=value, shown=value, **more)


def charge(value, judged=None, detail="discharging"):
    return Reading(
        sensor="vehicle", judged=value if judged is None else judged, shown=value, detail=detail
    )


@pytest.mark.parametrize(
    ("readings", "held_s", "text"),
    [
        ([], 7.0, "temperature UNKNOWN for 7 s: no sensor can be read"),
        ([celsius(30.0)], 0.0, "temperature NORMAL for 0 s: cpu_thermal at 30.0 °C"),
        (
            [celsius(30.0), celsius(47.26)],
            42.4,
            "temperature ELEVATED for 42 s: cpu_thermal at 47.3 °C, 45.0 °C or more",
        ),
        (
            [celsius(61.0), celsius(57.0)],
            3.0,
            "temperature CRITICAL for 4 s: cpu_thermal at 57.0 °C, reached 60.0 °C and has not "
            "been below 55.0 °C for 10 s",
        ),
        (
            [celsius(30.0), None],
            200.0,
            "temperature UNKNOWN for 3 min: cpu_thermal gives no reading any more",
        ),
        (
            [Reading(sensor="cpu_thermal", judged=120.0, shown=95.0, detail="at its limit")],
            0.0,
            "temperature CRITICAL for 0 s: cpu_thermal at 95.0 °C, at its limit, 60.0 °C or more",
        ),
    ],
)
def test_of_the_temperature(readings, held_s, text):
    assert sentence("temperature", HEAT, readings, held_s) == text


@pytest.mark.parametrize(
    ("readings", "text"),
    [
        ([charge(0.18)], "battery ELEVATED for 0 s: vehicle at 18.0 %, discharging, below 20.0 %"),
        (
            [charge(0.09), charge(0.11)],
            "battery CRITICAL for 1 s: vehicle at 11.0 %, discharging, was below 10.0 % and has "
            "not been at 13.0 % or more for 10 s",
        ),
        (
            [charge(0.05, judged=1.0, detail="charging")],
            "battery NORMAL for 0 s: vehicle at 5.0 %, charging",
        ),
        (
            [Reading(sensor="mains", judged=1.0, shown=None, detail="there is no battery")],
            "battery NORMAL for 0 s: mains, there is no battery",
        ),
        (
            [Reading(sensor="battery", judged=None, shown=0.1, detail="going who knows where")],
            "battery UNKNOWN for 0 s: battery at 10.0 %, going who knows where",
        ),
    ],
)
def test_of_the_battery(readings, text):
    assert sentence("battery", CHARGE, readings) == text


def test_long_times_are_told_in_hours():
    assert "for 5 h:" in sentence("temperature", HEAT, [celsius(30.0)], 5 * 3600.0)
