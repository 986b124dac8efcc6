"""Says in one sentence why a dimension is at its level: which rule, which reading, since when."""

from __future__ import annotations

from services.monitor.dimension import DimensionState
from services.monitor.pressure import PressureLevel, Reading, Thresholds


def explain(dimension: str, state: DimensionState, now_s: float) -> str:
    """Returns the sentence, without a full stop. `dimension` is a field name of Pressure."""
    head = f"{dimension} {state.level.name} for {_duration(max(0.0, now_s - state.since_s))}"
    return f"{head}: {_reason(dimension, state)}"


def _reason(dimension: str, state: DimensionState) -> str:
    reading, thresholds = state.reading, state.thresholds
    if reading is None or thresholds is None:
        silent = f"{state.last_sensor} gives no reading any more"
        return silent if state.last_sensor else "no sensor can be read"
    said = _said(dimension, reading)
    if state.level in (PressureLevel.UNKNOWN, PressureLevel.NORMAL):
        return said
    return f"{said}, {_rule(dimension, state.level, reading, thresholds)}"


def _said(dimension: str, reading: Reading) -> str:
    shown = "" if reading.shown is None else f" at {_value(dimension, reading.shown)}"
    detail = f", {reading.detail}" if reading.detail else ""
    return f"{reading.sensor}{shown}{detail}"


def _rule(dimension: str, level: PressureLevel, reading: Reading, thresholds: Thresholds) -> str:
    threshold = thresholds.of(level)
    assert threshold is not None and reading.judged is not None
    limit = _value(dimension, threshold)
    if thresholds.is_reached(reading.judged, threshold):
        return f"below {limit}" if thresholds.is_low_bad else f"{limit} or more"
    bound = _value(dimension, thresholds.calm_bound(threshold))
    side = f"at {bound} or more" if thresholds.is_low_bad else f"below {bound}"
    was = "was below" if thresholds.is_low_bad else "reached"
    return f"{was} {limit} and has not been {side} for {_duration(thresholds.dwell_s)}"


def _value(dimension: str, value: float) -> str:
    return f"{value:.1f} °C" if dimension == "temperature" else f"{value * 100:.1f} %"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
