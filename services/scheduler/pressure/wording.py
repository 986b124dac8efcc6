"""Says in one sentence what is restricted and why. Never names what a user typed."""

from __future__ import annotations

from services.scheduler.pressure.device import Dimension, PressureLevel
from services.scheduler.pressure.restrictions import Cause, Restriction
from services.scheduler.request import Priority

_STALL_SENSOR = "memory_stall"
"""The monitor's name for the share of time in which some task waited for memory."""
_MINUTE_S = 60.0
_HOUR_S = 3600.0


def say_cause(cause: Cause, now_s: float) -> str:
    """For example `device at 47 °C for 12 s`."""
    held = _say_duration(max(0.0, now_s - cause.since_s))
    return f"{_say_reading(cause)} for {held}"


def say_restriction(restriction: Restriction, now_s: float) -> str:
    """For example `device at 47 °C for 12 s: adapters above rank 32 are off`."""
    return f"{say_cause(restriction.cause, now_s)}: {', '.join(_limits(restriction))}"


def say_refused(restriction: Restriction) -> str:
    """For example `no new background and batch requests`."""
    if restriction.refused == set(Priority):
        return "no new requests"
    names = " and ".join(priority.name.lower() for priority in sorted(restriction.refused))
    return f"no new {names} requests"


def _limits(restriction: Restriction) -> list[str]:
    limits = []
    if restriction.refused:
        limits.append(say_refused(restriction))
    if restriction.max_rank is not None:
        limits.append(f"adapters above rank {restriction.max_rank} are off")
    for share, name in (
        (restriction.places_share, "requests at once"),
        (restriction.prefill_share, "prompt tokens in a step"),
        (restriction.threads_share, "threads"),
    ):
        if share < 1.0:
            limits.append(f"{share * 100:.0f} % of the {name}")
    if restriction.max_lower_running is not None and not restriction.refused:
        limits.append(
            f"at most {restriction.max_lower_running} background and batch requests at once"
        )
    if restriction.max_output_tokens is not None:
        limits.append(f"answers of at most {restriction.max_output_tokens} tokens")
    return limits


def _say_reading(cause: Cause) -> str:
    if cause.reading is None or cause.level is PressureLevel.UNKNOWN:
        return f"{cause.dimension} {cause.level.name.lower()}"
    if cause.dimension is Dimension.TEMPERATURE:
        return f"device at {cause.reading:.0f} °C"
    share = f"{cause.reading * 100:.0f} %"
    if cause.sensor == _STALL_SENSOR:
        return f"memory waited for {share} of the time"
    return f"{cause.dimension} at {share}"


def _say_duration(seconds: float) -> str:
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.0f} h"
