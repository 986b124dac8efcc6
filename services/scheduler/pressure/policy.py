"""The rules: what each level of each dimension takes away. Pure.

A higher level of a dimension takes away at least what a lower one does, and the same state always
gives the same restrictions, so recovery gives everything back. A dimension that is not known any
more is taken for the worse of what unknown means and of what it was: not knowing is not calm.
"""

from __future__ import annotations

from services.scheduler.pressure.device import DeviceState, Dimension, DimensionState, PressureLevel
from services.scheduler.pressure.restrictions import Cause, Restriction, Restrictions, merged
from services.scheduler.pressure.settings import Meaning, PressureSettings
from services.scheduler.request import Priority

_MEANINGS: dict[PressureLevel, Meaning] = {
    PressureLevel.NORMAL: "normal",
    PressureLevel.ELEVATED: "elevated",
    PressureLevel.CRITICAL: "critical",
}
_LOWER = frozenset({Priority.BACKGROUND, Priority.BATCH})


def restrict(device: DeviceState, settings: PressureSettings) -> Restrictions:
    """Returns what the state takes away."""
    found = (_restriction(dimension, device[dimension], settings) for dimension in Dimension)
    return Restrictions(active=tuple(restriction for restriction in found if restriction))


def _restriction(
    dimension: Dimension, state: DimensionState, settings: PressureSettings
) -> Restriction | None:
    cause = Cause(
        dimension=dimension,
        level=state.level,
        reading=state.reading,
        sensor=state.sensor,
        since_s=state.since_s,
    )
    meanings = {_meaning(level, dimension, settings) for level in (state.level, state.known_level)}
    found = (_of_meaning(cause, meaning, settings) for meaning in meanings)
    return merged([restriction for restriction in found if restriction])


def _meaning(
    level: PressureLevel | None, dimension: Dimension, settings: PressureSettings
) -> Meaning:
    if level is None:
        return "normal"
    return _MEANINGS.get(level, settings.unknown[dimension])


def _of_meaning(cause: Cause, meaning: Meaning, settings: PressureSettings) -> Restriction | None:
    match cause.dimension, meaning:
        case _, "cautious":
            return Restriction(cause=cause, places_share=settings.cautious_places_share)
        case Dimension.TEMPERATURE, "elevated":
            return Restriction(cause=cause, max_rank=settings.elevated_max_rank)
        case Dimension.TEMPERATURE, "critical":
            return Restriction(
                cause=cause,
                max_rank=settings.critical_max_rank,
                places_share=settings.critical_places_share,
                prefill_share=settings.critical_prefill_share,
                threads_share=settings.critical_threads_share,
            )
        case Dimension.MEMORY, "critical":
            return Restriction(cause=cause, refused=frozenset(Priority))
        case Dimension.BATTERY, "elevated":
            return Restriction(
                cause=cause,
                max_lower_running=settings.battery_elevated_places,
                max_output_tokens=settings.battery_elevated_max_output_tokens,
            )
        case Dimension.BATTERY, "critical":
            return Restriction(
                cause=cause,
                # Those that wait already get places all the same, to be refused at the grant.
                max_lower_running=settings.battery_elevated_places,
                max_output_tokens=settings.battery_critical_max_output_tokens,
                refused=_LOWER,
            )
    return None  # normal; and elevated memory, which is only shown
