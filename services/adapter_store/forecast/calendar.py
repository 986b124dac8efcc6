"""Local time as habits see it: the minute of the day and the kind of day. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass

MINUTES_PER_DAY = 1440
DAY_KINDS = ("weekday", "weekend", "holiday")
MAX_HOLIDAYS = 10_000
# A device without a battery-backed clock starts in 1970 or at its image's build.
_FIRST_BELIEVABLE_S = 1_704_067_200.0  # 2024-01-01
_LAST_BELIEVABLE_S = 4_102_444_800.0  # 2100-01-01
_SATURDAY = 5
_YEARLY = re.compile(r"\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in local time."""

    date: int
    """Days since 0001-01-01, as `datetime.date.toordinal` counts."""
    minute: int
    """0 to 1439, on the clock on the wall: on the day the clocks go back an hour comes twice."""
    kind: str
    """One of DAY_KINDS."""
    next_kind: str
    """Of the day after."""


@dataclass(frozen=True, slots=True)
class Holidays:
    """Days that are lived like no weekday."""

    dates: frozenset[dt.date] = frozenset()
    yearly: frozenset[tuple[int, int]] = frozenset()
    """Month and day, of every year; 29 February only in leap years."""

    def __contains__(self, date: dt.date) -> bool:
        return date in self.dates or (date.month, date.day) in self.yearly


class Calendar:
    """Turns Unix time into moments."""

    def __init__(self, zone: dt.tzinfo | None = None, holidays: Holidays | None = None) -> None:
        """`zone`: None for the system's."""
        self._zone = zone
        self._holidays = holidays or Holidays()
        self._kinds: tuple[int, str, str] = (0, "", "")

    def moment(self, unix_s: float) -> Moment | None:
        """The moment; None when the clock can not be right."""
        if not _FIRST_BELIEVABLE_S <= unix_s < _LAST_BELIEVABLE_S:
            return None
        local = dt.datetime.fromtimestamp(unix_s, self._zone)
        date = local.toordinal()
        if self._kinds[0] != date:
            today = local.date()
            self._kinds = (date, self.kind(today), self.kind(today + dt.timedelta(days=1)))
        return Moment(date, local.hour * 60 + local.minute, self._kinds[1], self._kinds[2])

    def kind(self, date: dt.date) -> str:
        """The kind of a day; a holiday on a Sunday is a holiday."""
        if date in self._holidays:
            return "holiday"
        return "weekend" if date.weekday() >= _SATURDAY else "weekday"

    def kinds(self, first: int, last: int) -> Iterable[str]:
        """The kinds of the days numbered `first` to `last`, both included."""
        return (self.kind(dt.date.fromordinal(date)) for date in range(first, last + 1))


def parse_holidays(text: str) -> Holidays:
    """Reads a holidays file: a day a line, `2026-12-25` or, for every year, `12-25`.

    What follows the day is its name; empty lines and those that start with `#` are skipped.
    Raises ValueError with the number of a line that is neither.
    """
    dates: set[dt.date] = set()
    yearly: set[tuple[int, int]] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split(maxsplit=1)
        if not words or words[0].startswith("#"):
            continue
        try:
            if _YEARLY.fullmatch(words[0]):
                day = dt.date.fromisoformat(f"2000-{words[0]}")  # a leap year
                yearly.add((day.month, day.day))
            else:
                dates.add(dt.date.fromisoformat(words[0]))
        except ValueError:
            raise ValueError(
                f"line {number} of the holidays file does not start with a day such as 2026-12-25 "
                "or 12-25"
            ) from None
        if len(dates) + len(yearly) > MAX_HOLIDAYS:
            raise ValueError(f"the holidays file has more than {MAX_HOLIDAYS} days")
    return Holidays(frozenset(dates), frozenset(yearly))
