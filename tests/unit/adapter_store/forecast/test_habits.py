"""What is learnt of one user, and that no order of uses and clocks breaks it."""

import datetime as dt
import json
import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from services.adapter_store.forecast.habits import COST_OF_A_USER, MAX_CELLS, UserHabits
from tests.support.habit_node import CALENDAR, unix_s

MONDAY_S = unix_s("2026-01-05")


class Life:
    """One user's habits on a clock of its own."""

    def __init__(self, start_s=MONDAY_S):
        self.now_s = self.start_s = start_s
        self.habits = UserHabits(0.0)

    @property
    def days(self):
        return (self.now_s - self.start_s) / 86_400

    def use(self, adapter, at_s):
        self.now_s = at_s
        self.habits.note(adapter, CALENDAR.moment(at_s), self.days, CALENDAR)

    def outlook(self, at_s, horizon_minutes=15):
        self.now_s = at_s
        return self.habits.outlook(CALENDAR.moment(at_s), self.days, horizon_minutes, CALENDAR)

    def likeliest(self, at_s):
        chances = self.outlook(at_s).next_use
        return max(chances, key=chances.get)


def day_s(number, hour, minute=0):
    """A moment of day `number` after the Monday, outside the changes of the clocks."""
    return MONDAY_S + number * 86_400 + hour * 3600 + minute * 60


def test_time_of_day_is_learnt():
    life = Life()
    hours = {"morning": 7, "noon": 12, "night": 22}
    # One a day in no order, so that only the hour tells.
    choice = random.Random(1)
    for number in range(30):
        adapter = choice.choice(sorted(hours))
        life.use(adapter, day_s(number, hours[adapter]))
    for adapter, hour in hours.items():
        assert life.likeliest(day_s(30, hour, 5)) == adapter


def test_weekends_are_not_weekdays():
    life = Life()
    for number in range(21):
        life.use("garden" if number % 7 >= 5 else "mail", day_s(number, 9))
    # The Friday after, then the Saturday.
    assert life.likeliest(day_s(25, 9)) == "mail"
    assert life.likeliest(day_s(26, 9)) == "garden"


def test_holidays_are_lived_like_the_holidays_before():
    life = Life(unix_s("2026-03-30"))
    for date, adapter in (
        ("2026-03-31", "mail"),
        ("2026-04-01", "mail"),
        ("2026-04-02", "mail"),
        ("2026-04-03", "egg hunt"),
    ):
        life.use(adapter, unix_s(date, 10))
    outlook = life.outlook(unix_s("2026-04-06", 10))
    weekday = life.outlook(unix_s("2026-04-07", 10))
    assert outlook.within_a_day["egg hunt"] > 2 * weekday.within_a_day["egg hunt"]
    assert outlook.within_a_day["mail"] < weekday.within_a_day["mail"]
    assert outlook.next_use["egg hunt"] > 1.2 * weekday.next_use["egg hunt"]


def test_the_adapter_before_is_learnt():
    life = Life()
    # At no fixed hour, so that only the order tells.
    for number in range(30):
        at_s = day_s(number, (number * 7) % 22)
        life.use("dictation", at_s)
        life.use("minutes", at_s + 1200)
    at_s = day_s(31, 3)
    life.use("dictation", at_s)
    chances = life.outlook(at_s + 600).next_use
    assert chances["minutes"] > 0.8
    assert life.habits.reasons("minutes", CALENDAR.moment(at_s), life.days)[0] == (
        "after the adapter before"
    )


def test_habits_that_end_fade():
    life = Life()
    for number in range(14):
        life.use("old job", day_s(number, 8))
    for number in range(14, 24):
        life.use("new job", day_s(number, 8))
    chances = life.outlook(day_s(24, 8)).next_use
    assert chances["new job"] > 3 * chances["old job"]


def test_activity_is_high_when_the_user_usually_comes():
    life = Life()
    for number in range(20):
        life.use("a", day_s(number, 7, 10))
    assert life.outlook(day_s(21, 7, 0), 30).activity > 0.3
    assert life.outlook(day_s(21, 3, 0), 30).activity < 0.1


def test_more_adapters_than_can_be_kept_push_out_the_least_used():
    life = Life()
    for number in range(200):
        life.use(f"passing {number}", day_s(number, 9))
        life.use("steady", day_s(number, 15))
    assert len(life.habits.adapters) == 32
    assert "steady" in life.habits.adapters
    chances = life.outlook(day_s(200, 15)).next_use
    assert max(chances, key=chances.get) == "steady"


def test_every_reason_is_in_words():
    life = Life()
    for number in range(10):
        life.use("a", day_s(number, 7))
    reasons = life.habits.reasons("a", CALENDAR.moment(day_s(10, 7)), life.days)
    assert "time of a weekday" in reasons
    assert all(" " in reason for reason in reasons)
    assert life.habits.reasons("unknown", CALENDAR.moment(day_s(10, 7)), life.days) == []


def test_the_same_visit_and_repeated_calls_count_once():
    once, often = Life(), Life()
    once.use("a", day_s(0, 7))
    for second in range(300):
        often.use("a", day_s(0, 7) + second)
    for life in (once, often):
        life.use("b", day_s(0, 9))
    assert once.outlook(day_s(0, 10)).next_use.keys() == {"a", "b"}
    for adapter in ("a", "b"):
        assert math.isclose(
            once.outlook(day_s(0, 10)).next_use[adapter],
            often.outlook(day_s(0, 10)).next_use[adapter],
            rel_tol=0.01,
        )


def test_a_flood_is_learnt_slowly():
    life = Life()
    for number in range(20):
        life.use("usual", day_s(number, 7))
    for step in range(5000):
        life.use(f"flood {step % 2}", day_s(20, 3) + step * 0.1)
    # 60 of 5,000 were learnt; the usual one has not drowned.
    assert life.outlook(day_s(21, 7)).within_a_day["usual"] > 0.3


def test_a_leap_day_and_the_change_of_the_clocks_are_no_break():
    for first, at in (("2028-02-20", "2028-03-01"), ("2026-03-20", "2026-03-31")):
        life = Life(unix_s(first))
        for number in range(9):
            local = CALENDAR.moment(life.start_s).date + number
            date = str(dt.date.fromordinal(local))
            life.use("morning", unix_s(date, 7))
            life.use("night", unix_s(date, 22))
        assert life.likeliest(unix_s(at, 7)) == "morning"


USES = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.one_of(st.floats(0, 3 * 86_400), st.sampled_from([0.0, 0.1, 400 * 86_400.0, 3e9])),
        st.sampled_from([0.0, -1e6, 1e6, -2e9, 1e9]),
    ),
    max_size=60,
)
"""Adapter, seconds that pass, and how far the wall clock is moved."""


@settings(max_examples=60, deadline=None)
@given(USES)
def test_chances_are_chances_whatever_happens(uses):
    habits, days, moved_s = UserHabits(0.0), 0.0, 0.0
    for number, elapsed_s, move_s in uses:
        days += min(elapsed_s / 86_400, 60.0)
        moved_s += move_s
        moment = CALENDAR.moment(MONDAY_S + days * 86_400 + moved_s)
        habits.note(f"adapter {number}", moment, days, CALENDAR)
        outlook = habits.outlook(moment, days, 15.0, CALENDAR)
        assert 0.0 <= outlook.activity <= 1.0
        assert all(0.0 <= chance <= 1.0 for chance in outlook.next_use.values())
        assert math.fsum(outlook.next_use.values()) <= 1.0
        assert all(0.0 <= chance <= 1.0 for chance in outlook.within_a_day.values())
        assert habits.size <= COST_OF_A_USER + MAX_CELLS
        assert len(habits.adapters) <= 32
        assert math.isclose(math.fsum(habits._weights[True]), 1.0)
    stored = json.loads(json.dumps(habits.document()))
    again = UserHabits.from_document(stored, days)
    assert json.loads(json.dumps(again.document())) == stored
    moment = CALENDAR.moment(MONDAY_S + days * 86_400)
    expected = habits.outlook(moment, days, 15.0, CALENDAR)
    found = again.outlook(moment, days, 15.0, CALENDAR)
    assert found.next_use.keys() == expected.next_use.keys()
    for adapter, chance in expected.next_use.items():
        assert math.isclose(found.next_use[adapter], chance, rel_tol=1e-9)


@settings(max_examples=30, deadline=None)
@given(USES.filter(bool))
def test_a_forgotten_adapter_is_nowhere(uses):
    habits, days = UserHabits(0.0), 0.0
    for number, elapsed_s, _ in uses:
        days += min(elapsed_s / 86_400, 60.0)
        habits.note(f"<{number}>", CALENDAR.moment(MONDAY_S + days * 86_400), days, CALENDAR)
    gone = f"<{uses[0][0]}>"
    habits.forget(gone)
    assert gone not in json.dumps(habits.document())
    assert gone not in habits.outlook(None, days, 15.0, CALENDAR).next_use
