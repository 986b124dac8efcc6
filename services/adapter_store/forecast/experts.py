"""What a user's next adapter may depend on: each expert counts choices in a context of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.adapter_store.forecast.calendar import MINUTES_PER_DAY, Moment

NUM_BINS = 48
_BIN_MINUTES = MINUTES_PER_DAY // NUM_BINS
_REACH = 1.5  # bins; how far a use spreads to both sides
_BINS = tuple(map(str, range(NUM_BINS)))
SHORT_GAP_DAYS = 2 / 24


@dataclass(frozen=True, slots=True)
class Expert:
    """One point of view."""

    name: str
    half_life_days: float
    """After so long a use counts half."""


EXPERTS = (
    Expert("lately", 14.0),
    Expert("today", 0.25),
    Expert("hour_of_kind", 28.0),
    Expert("hour", 3.0),
    Expert("after", 28.0),
)
"""Frequency; recency; time of a weekday, weekend or holiday; time on the last days whatever day it
was; and the adapter before."""

Spread = Sequence[tuple[str, float]]
"""Contexts and the share of a use each is given; the first is the one to read."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a user's next use is forecast from."""

    moment: Moment | None
    """None when the clock can not be right: then time tells nothing."""
    previous: str | None
    """The adapter used before."""
    gap_days: float
    """Since that use."""

    @property
    def is_new_sitting(self) -> bool:
        """Whether the user has been away for long."""
        return self.gap_days >= SHORT_GAP_DAYS


def readings(situation: Situation) -> tuple[str | None, ...]:
    """The context each expert reads now; None when it has no say."""
    moment = situation.moment
    at = None if moment is None else _BINS[moment.minute // _BIN_MINUTES]
    return (
        "",
        "",
        None if moment is None else f"{moment.kind} {at}",
        at,
        _after(situation),
    )


def spreads(situation: Situation) -> tuple[Spread, ...]:
    """The contexts each expert counts a use in, with their shares."""
    moment = situation.moment
    bins = () if moment is None else _around(moment.minute)
    after = _after(situation)
    return (
        (("", 1.0),),
        (("", 1.0),),
        () if moment is None else tuple((f"{moment.kind} {at}", share) for at, share in bins),
        bins,
        () if after is None else ((after, 1.0),),
    )


def after_contexts(adapter: str) -> tuple[str, str]:
    """The contexts in which an adapter is the one before."""
    return (f"{adapter} soon", f"{adapter} later")


def _after(situation: Situation) -> str | None:
    if situation.previous is None:
        return None
    soon, later = after_contexts(situation.previous)
    return later if situation.is_new_sitting else soon


def _around(minute: int) -> tuple[tuple[str, float], ...]:
    # A triangle around the minute; its shares sum to 1 wherever in the bin it stands, and midnight
    # is no border.
    position = minute / _BIN_MINUTES
    middle = int(position)
    weights = [
        (_BINS[at % NUM_BINS], max(0.0, 1.0 - abs(position - at - 0.5) / _REACH))
        for at in (middle - 1, middle, middle + 1)
    ]
    total = sum(weight for _, weight in weights)
    return tuple((at, weight / total) for at, weight in weights)
