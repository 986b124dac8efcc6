"""Seeded traces of people who use adapters by habit, and of one who does not.

The same profile and seed give the same trace. People are made of routines: a time of day with its
spread, how often it happens, and which adapters it takes. On top comes what spoils forecasts: one
use in seven is any adapter at all, days are skipped, routines drift.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

ZONE = ZoneInfo("Europe/Berlin")
FIRST_DAY = dt.date(2026, 2, 16)
"""A Monday; in the eight weeks from here lie a change of the clocks and the Easter holidays."""
HOLIDAYS = frozenset({dt.date(2026, 4, 3), dt.date(2026, 4, 6)})
NUM_ADAPTERS = 24
_STRAY = 1 / 7
_DAY_OFF = 0.04


@dataclass(frozen=True, slots=True)
class Use:
    """One request."""

    unix_s: float
    user: str
    adapter: int
    """0 to NUM_ADAPTERS - 1."""


@dataclass(frozen=True, slots=True)
class Routine:
    """Something done about every day of its kind."""

    minute: float
    """Of the day; from the start of a shift for shift workers. Beyond 1440: after midnight."""
    spread: float
    """Standard deviation in minutes."""
    chance: float
    choices: Sequence[tuple[int, float]]
    """First adapter of the sitting, with weights."""
    then: Sequence[tuple[int, float]] = ()
    """Adapters that follow, each with its chance."""


_WEEKDAY = (
    Routine(420, 12, 0.9, ((0, 9), (1, 1))),
    Routine(465, 10, 0.85, ((2, 8), (3, 1), (0, 1)), ((4, 0.3),)),
    Routine(550, 20, 0.95, ((5, 1),), ((6, 0.6), (7, 0.4))),
    Routine(780, 25, 0.6, ((8, 2), (4, 1))),
    Routine(930, 60, 0.8, ((5, 2), (7, 2), (9, 1)), ((6, 0.3),)),
    Routine(1110, 25, 0.7, ((10, 3), (2, 1))),
    Routine(1260, 40, 0.6, ((11, 1), (12, 1), (8, 1))),
    Routine(1365, 20, 0.6, ((13, 4), (12, 1))),
)
_WEEKEND = (
    Routine(570, 50, 0.8, ((0, 2), (14, 2))),
    Routine(680, 60, 0.7, ((10, 2), (15, 1)), ((15, 0.3),)),
    Routine(900, 90, 0.7, ((16, 2), (17, 1), (18, 1))),
    Routine(1200, 60, 0.7, ((12, 2), (8, 1))),
    Routine(1380, 40, 0.5, ((13, 3), (12, 1))),
)
_SHIFT = (
    Routine(-60, 12, 0.9, ((0, 9), (2, 1))),
    Routine(5, 8, 0.95, ((1, 1),), ((3, 0.5),)),
    Routine(130, 30, 0.8, ((3, 2), (4, 1)), ((5, 0.3),)),
    Routine(260, 20, 0.6, ((6, 1), (7, 1))),
    Routine(470, 10, 0.9, ((8, 4), (1, 1))),
    Routine(600, 40, 0.6, ((9, 1), (10, 1), (11, 1))),
)
_SHIFT_STARTS = (360, 840, 1320)
_OFF_SHIFT = (
    Routine(640, 60, 0.8, ((9, 1), (10, 1))),
    Routine(950, 90, 0.6, ((12, 1), (13, 1), (14, 1))),
    Routine(1250, 60, 0.7, ((11, 2), (15, 1))),
)
_CHILD_SCHOOL = (
    Routine(870, 20, 0.85, ((19, 1),), ((20, 0.5),)),
    Routine(1020, 40, 0.7, ((17, 2), (21, 1))),
    Routine(1190, 15, 0.7, ((13, 1),)),
)
_CHILD_FREE = (
    Routine(600, 50, 0.7, ((17, 2), (21, 1))),
    Routine(960, 90, 0.7, ((21, 1), (17, 1))),
    Routine(1200, 25, 0.6, ((13, 1),)),
)
_ELDER = (
    Routine(540, 20, 0.9, ((8, 1),)),
    Routine(720, 30, 0.5, ((10, 1),)),
    Routine(990, 30, 0.7, ((22, 3), (23, 1))),
)
PROFILES = ("commuter", "shift worker", "family", "random user")


def is_free(date: dt.date) -> bool:
    """Whether a day is a weekend or a holiday."""
    return date.weekday() >= 5 or date in HOLIDAYS


def trace(profile: str, seed: int, weeks: int) -> list[Use]:
    """The uses of one device in order of time. Raises KeyError for an unknown profile."""
    make = {
        "commuter": _commuter,
        "shift worker": _shift_worker,
        "family": _family,
        "random user": _random_user,
    }[profile]
    return sorted(
        make(random.Random(f"{profile} {seed}"), weeks), key=lambda use: (use.unix_s, use.user)
    )


def _commuter(chance: random.Random, weeks: int, user: str = "one") -> Iterator[Use]:
    return _person(chance, weeks, user, _WEEKDAY, _WEEKEND)


def _family(chance: random.Random, weeks: int) -> Iterator[Use]:
    yield from _commuter(chance, weeks, "parent")
    yield from _person(chance, weeks, "child", _CHILD_SCHOOL, _CHILD_FREE)
    yield from _person(chance, weeks, "elder", _ELDER, _ELDER)


def _person(
    chance: random.Random,
    weeks: int,
    user: str,
    weekday: Sequence[Routine],
    free: Sequence[Routine],
) -> Iterator[Use]:
    drift = chance.gauss(0.0, 15.0)
    for date in _days(weeks):
        if chance.random() >= _DAY_OFF:
            yield from _lived(chance, date, drift, free if is_free(date) else weekday, user)


def _shift_worker(chance: random.Random, weeks: int) -> Iterator[Use]:
    # Five days of one shift, two days off, then the next shift.
    first = chance.randrange(21)
    for number, date in enumerate(_days(weeks), start=first):
        if chance.random() < _DAY_OFF:
            continue
        if number % 7 >= 5:
            yield from _lived(chance, date, 0.0, _OFF_SHIFT, "one")
        else:
            start = _SHIFT_STARTS[number // 7 % 3]
            yield from _lived(chance, date, float(start), _SHIFT, "one")


def _random_user(chance: random.Random, weeks: int) -> Iterator[Use]:
    for date in _days(weeks):
        for _ in range(chance.randint(3, 8)):
            at_s = _unix_s(date, chance.uniform(0, 1440))
            yield Use(at_s, "one", chance.randrange(NUM_ADAPTERS))


def _lived(
    chance: random.Random, date: dt.date, shift: float, routines: Sequence[Routine], user: str
) -> Iterator[Use]:
    for routine in routines:
        if chance.random() >= routine.chance:
            continue
        at_s = _unix_s(date, chance.gauss(routine.minute + shift, routine.spread))
        adapters, weights = zip(*routine.choices, strict=True)
        yield Use(at_s, user, _stray(chance, chance.choices(adapters, weights)[0]))
        for adapter, share in routine.then:
            if chance.random() < share:
                at_s += chance.uniform(60, 900)
                yield Use(at_s, user, _stray(chance, adapter))


def _stray(chance: random.Random, adapter: int) -> int:
    return chance.randrange(NUM_ADAPTERS) if chance.random() < _STRAY else adapter


def _days(weeks: int) -> Iterator[dt.date]:
    return (FIRST_DAY + dt.timedelta(days=number) for number in range(7 * weeks))


def _unix_s(date: dt.date, minute: float) -> float:
    # The clock on the wall: routines follow it over the change of the clocks.
    midnight = dt.datetime.combine(date, dt.time(), ZONE)
    return (midnight + dt.timedelta(minutes=minute)).timestamp()
