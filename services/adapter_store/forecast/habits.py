"""One user's habits: learnt use by use, asked for the chances of the next. Pure.

The next adapter is forecast by a mixture of experts whose weights follow their success (the fixed
share update of Herbster and Warmuth, "Tracking the best expert", Machine Learning 32, 1998).
Whether the user comes at all is a rate: visits in this half hour of such days.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.adapter_store.forecast.calendar import MINUTES_PER_DAY, Calendar, Moment
from services.adapter_store.forecast.experts import (
    EXPERTS,
    NUM_BINS,
    Situation,
    after_contexts,
    readings,
    spreads,
)
from services.adapter_store.forecast.fading_counts import FadingCounts

MAX_ADAPTERS = 32
MAX_CELLS = 1024
COST_OF_A_USER = 64
"""Cells' worth of memory a user takes beside its cells."""
VISIT_GAP_DAYS = 10 / MINUTES_PER_DAY
"""The same adapter again within this time is the same visit."""
MAX_VISITS_PER_HOUR = 60
_FIXED_SHARE = 0.02
_TRUST = 1.0  # uses' worth of weight the overall frequency has in every context
_AUDIBLE = 0.1  # part of a forecast an expert has in it to be named as a reason
_DAYS_HALF_LIFE_DAYS = 28.0
_MAX_ROLLED_DAYS = 60
_LATELY, _, _HOUR_OF_KIND, _, _AFTER = range(len(EXPERTS))


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is expected of one user."""

    activity: float
    """Chance that the user comes within the horizon."""
    next_use: Mapping[str, float]
    """Adapter -> chance that it is the next one used; they sum to less than 1."""
    within_a_day: Mapping[str, float]
    """Adapter -> chance that it is used within 24 hours."""


class UserHabits:
    """What was learnt of one user."""

    def __init__(self, now_days: float) -> None:
        self.num_uses = 0
        self.last_use_days = now_days
        self._numbers: dict[str, str] = {}
        """Adapter -> its number here, under which everything is counted: a digest is long."""
        self._previous: str | None = None
        self._counts = tuple(FadingCounts(each.half_life_days, now_days) for each in EXPERTS)
        # By whether the user was away: what tells the first adapter of the morning is not what
        # tells the next one in a conversation.
        self._weights = {new: [1.0 / len(EXPERTS)] * len(EXPERTS) for new in (False, True)}
        self._days_used = FadingCounts(_DAYS_HALF_LIFE_DAYS, now_days)
        self._days_lived = FadingCounts(_DAYS_HALF_LIFE_DAYS, now_days)
        self._rolled_to: tuple[int, float] | None = None
        self._used_on: dict[str, int] = {}
        """Number -> the date it was last used on; 0 for none that is known."""
        self._allowance = float(MAX_VISITS_PER_HOUR)

    @property
    def adapters(self) -> tuple[str, ...]:
        """Those it knows."""
        return tuple(self._numbers)

    @property
    def size(self) -> int:
        """Memory it takes, in cells."""
        return COST_OF_A_USER + sum(counts.num_cells for counts in self._counts)

    def note(
        self, adapter: str, moment: Moment | None, now_days: float, calendar: Calendar
    ) -> None:
        """Learns from a use."""
        gap_days = now_days - self.last_use_days
        number = self._numbers.get(adapter)
        is_same_visit = (
            number is not None and number == self._previous and gap_days < VISIT_GAP_DAYS
        )
        self.num_uses += 1
        self.last_use_days = now_days
        self._allowance = min(
            float(MAX_VISITS_PER_HOUR), self._allowance + gap_days * 24 * MAX_VISITS_PER_HOUR
        )
        if is_same_visit or self._allowance < 1.0:
            return
        self._allowance -= 1.0
        self._roll(moment, now_days, calendar)
        is_new = number is None
        number = number or self._number(adapter)
        situation = Situation(moment, self._previous, gap_days)
        if not is_new:  # that one, nobody could know
            self._judge(number, situation, now_days)
        for counts, spread in zip(self._counts, spreads(situation), strict=True):
            for context, share in spread:
                counts.add(context, number, now_days, share)
        if moment is None:
            self._used_on.setdefault(number, 0)
        elif self._used_on.get(number) != moment.date:
            self._used_on[number] = moment.date
            self._days_used.add(moment.kind, number, now_days)
        self._previous = number
        floor = 0.01
        while self.size > COST_OF_A_USER + MAX_CELLS:
            for counts in self._counts:
                counts.prune(now_days, floor)
            floor *= 2

    def outlook(
        self, moment: Moment | None, now_days: float, horizon_minutes: float, calendar: Calendar
    ) -> Outlook:
        """What is expected now."""
        self._roll(moment, now_days, calendar)
        situation = Situation(moment, self._previous, now_days - self.last_use_days)
        shares = self._shares(situation, now_days)
        weights = self._weights[situation.is_new_sitting]
        chances = dict.fromkeys(self._used_on, 0.0)
        for weight, share in zip(weights, shares, strict=True):
            for number, chance in share.items():
                chances[number] += weight * chance
        today = self._within_a_day(moment, now_days)
        return Outlook(
            activity=self._activity(moment, now_days, horizon_minutes),
            next_use={adapter: chances[number] for adapter, number in self._numbers.items()},
            within_a_day={
                adapter: today.get(number, 0.0) for adapter, number in self._numbers.items()
            },
        )

    def reasons(self, adapter: str, moment: Moment | None, now_days: float) -> list[str]:
        """Why an adapter is expected, the strongest reason first."""
        situation = Situation(moment, self._previous, now_days - self.last_use_days)
        weights = self._weights[situation.is_new_sitting]
        shares = self._shares(situation, now_days)
        number = self._numbers.get(adapter, "")
        voices = [
            weight * share.get(number, 0.0) for weight, share in zip(weights, shares, strict=True)
        ]
        words = (
            "used often lately",
            "used in the last hours",
            f"time of a {moment.kind}" if moment else "",
            "time of day on the last days",
            "after the adapter before" + (", after a break" if situation.is_new_sitting else ""),
        )
        ranked = sorted(range(len(EXPERTS)), key=lambda index: -voices[index])
        return [words[index] for index in ranked if voices[index] >= _AUDIBLE * sum(voices) > 0.0]

    def _shares(self, situation: Situation, now_days: float) -> list[dict[str, float]]:
        """Each expert's chances for the next number; what is left of 1 is for a new one."""
        base = {number: self._base_of(number, now_days) for number in self._used_on}
        shares = []
        for counts, context in zip(self._counts, readings(situation), strict=True):
            if context is None or not counts.total(context):
                shares.append(base)
                continue
            scale = counts.scale(now_days)
            evidence = counts.total(context) * scale + _TRUST
            trust = _TRUST / evidence
            share = {number: chance * trust for number, chance in base.items()}
            for number, cell in counts.cells(context).items():
                share[number] += cell * scale / evidence
            shares.append(share)
        return shares

    def forget(self, adapter: str) -> None:
        """Removes every trace of an adapter."""
        number = self._numbers.pop(adapter, None)
        if number is None:
            return
        self._used_on.pop(number, None)
        for counts in (*self._counts, self._days_used):
            counts.remove(number)
        self._counts[_AFTER].remove_contexts(after_contexts(number))
        if self._previous == number:
            self._previous = None

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "uses": self.num_uses,
            "last_use": self.last_use_days,
            "numbers": self._numbers,
            "previous": self._previous,
            "experts": {
                expert.name: counts.document()
                for expert, counts in zip(EXPERTS, self._counts, strict=True)
            },
            "weights": [self._weights[False], self._weights[True]],
            "days_used": self._days_used.document(),
            "days_lived": self._days_lived.document(),
            "rolled_to": self._rolled_to,
            "used_on": self._used_on,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any], now_days: float) -> UserHabits:
        """From what `document` gave. Raises ValueError, TypeError or KeyError on other data."""
        habits = cls(float(document["last_use"]))
        if not 0.0 <= habits.last_use_days <= now_days:
            raise ValueError("the last use lies ahead")
        habits.num_uses = int(document["uses"])
        habits._numbers = {str(name): str(number) for name, number in document["numbers"].items()}
        habits._previous = None if document["previous"] is None else str(document["previous"])
        for expert, counts in zip(EXPERTS, habits._counts, strict=True):
            counts.load(document["experts"][expert.name], now_days)
        for is_new, weights in zip((False, True), document["weights"], strict=True):
            if len(weights) != len(EXPERTS) or not math.isclose(math.fsum(weights), 1.0):
                raise ValueError("the weights of the experts do not sum to 1")
            habits._weights[is_new] = [float(weight) for weight in weights]
        habits._days_used.load(document["days_used"], now_days)
        habits._days_lived.load(document["days_lived"], now_days)
        rolled = document["rolled_to"]
        habits._rolled_to = None if rolled is None else (int(rolled[0]), float(rolled[1]))
        habits._used_on = {str(number): int(date) for number, date in document["used_on"].items()}
        numbers = set(habits._numbers.values())
        named = {habits._previous or "", "", *habits._days_used.choices()}
        named.update(*(counts.choices() for counts in habits._counts))
        if (
            len(numbers) != len(habits._numbers)
            or numbers != set(habits._used_on)
            or not named <= numbers | {""}
        ):
            raise ValueError("the adapters do not agree")
        return habits

    def _base_of(self, number: str, now_days: float) -> float:
        # How often at all; half a use is kept for adapters never seen, as Krichevsky-Trofimov do.
        counts = self._counts[_LATELY]
        scale = counts.scale(now_days)
        even = 0.5 / len(self._used_on)
        return (counts.cells("").get(number, 0.0) * scale + even) / (counts.total("") * scale + 1)

    def _judge(self, number: str, situation: Situation, now_days: float) -> None:
        """Moves weight to the experts who knew."""
        weights = self._weights[situation.is_new_sitting]
        base = self._base_of(number, now_days)
        earned = []
        for weight, counts, context in zip(weights, self._counts, readings(situation), strict=True):
            chance = base
            if context is not None and (total := counts.total(context)):
                scale = counts.scale(now_days)
                cell = counts.cells(context).get(number, 0.0)
                chance = (cell * scale + _TRUST * base) / (total * scale + _TRUST)
            earned.append(weight * chance)
        kept = (1.0 - _FIXED_SHARE) / math.fsum(earned)
        weights[:] = [each * kept + _FIXED_SHARE / len(EXPERTS) for each in earned]

    def _activity(self, moment: Moment | None, now_days: float, horizon_minutes: float) -> float:
        lived = self._days_lived
        days = sum(map(lived.total, ("weekday", "weekend", "holiday"))) * lived.scale(now_days)
        lately = self._counts[_LATELY]
        usual = lately.total("") * lately.scale(now_days) / max(1.0, days) / NUM_BINS
        if moment is None:
            rate = usual
        else:
            (_, _, context, _, _) = readings(Situation(moment, None, 0.0))
            counts = self._counts[_HOUR_OF_KIND]
            seen = counts.total(context or "") * counts.scale(now_days)
            rate = (seen + 0.5 * usual) / (lived.total(moment.kind) * lived.scale(now_days) + 0.5)
        return 1.0 - math.exp(-rate * horizon_minutes * NUM_BINS / MINUTES_PER_DAY)

    def _within_a_day(self, moment: Moment | None, now_days: float) -> dict[str, float]:
        if moment is None:
            return {}
        today_left = 1.0 - moment.minute / MINUTES_PER_DAY
        today = self._day_chances(moment.kind, now_days)
        tomorrow = self._day_chances(moment.next_kind, now_days)
        return {
            number: 1.0
            - (1.0 - today[number]) ** today_left * (1.0 - tomorrow[number]) ** (1.0 - today_left)
            for number in self._used_on
        }

    def _day_chances(self, kind: str, now_days: float) -> dict[str, float]:
        used, lived = self._days_used, self._days_lived
        scale, lived_scale = used.scale(now_days), lived.scale(now_days)
        kinds = ("weekday", "weekend", "holiday")
        all_days = sum(map(lived.total, kinds)) * lived_scale + 1.0
        evidence = lived.total(kind) * lived_scale + 1.0
        chances = {}
        for number in self._used_on:
            overall = sum(used.cells(each).get(number, 0.0) for each in kinds) * scale / all_days
            days = used.cells(kind).get(number, 0.0) * scale
            chances[number] = min(1.0, (days + overall) / evidence)
        return chances

    def _roll(self, moment: Moment | None, now_days: float, calendar: Calendar) -> None:
        """Counts the days that began since the last look, whether or not they saw a use."""
        if moment is None:
            return
        if self._rolled_to is None:
            self._rolled_to = (moment.date, now_days)
            self._days_lived.add(moment.kind, "", now_days)
            return
        date, rolled_days = self._rolled_to
        if moment.date == date:
            return
        # A clock that is moved makes no days: at most those that fit into the time that passed.
        num_days = min(moment.date - date, math.floor(now_days - rolled_days) + 1, _MAX_ROLLED_DAYS)
        for kind in calendar.kinds(moment.date - num_days + 1, moment.date):
            self._days_lived.add(kind, "", now_days)
        self._rolled_to = (moment.date, now_days)

    def _number(self, adapter: str) -> str:
        if len(self._numbers) >= MAX_ADAPTERS:
            cells = self._counts[_LATELY].cells("")
            least = min(self._numbers.items(), key=lambda each: (cells.get(each[1], 0.0), each[0]))
            self.forget(least[0])
        taken = set(self._numbers.values())
        number = next(name for name in map(str, range(MAX_ADAPTERS)) if name not in taken)
        self._numbers[adapter] = number
        return number
