"""Local time: kinds of days, the change of the clocks, leap days, and clocks that are wrong."""

import datetime as dt

import pytest

from services.adapter_store.forecast.calendar import Calendar, Holidays, parse_holidays
from tests.support.habit_node import BERLIN, CALENDAR, unix_s


def test_weekdays_weekends_and_holidays_are_told_apart():
    kinds = {
        date: CALENDAR.moment(unix_s(date, 12)).kind
        for date in ("2026-04-02", "2026-04-03", "2026-04-04", "2026-04-05", "2026-04-06")
    }
    assert list(kinds.values()) == ["weekday", "holiday", "weekend", "weekend", "holiday"]
    assert CALENDAR.moment(unix_s("2026-04-02", 12)).next_kind == "holiday"


def test_a_holiday_on_a_sunday_is_a_holiday():
    calendar = Calendar(BERLIN, Holidays(frozenset({dt.date(2026, 4, 5)})))
    assert calendar.moment(unix_s("2026-04-05", 9)).kind == "holiday"


def test_the_wall_clock_counts_over_the_change_of_the_clocks():
    # 29 March 2026: 2:00 becomes 3:00. 25 October: 3:00 becomes 2:00.
    spring = CALENDAR.moment(unix_s("2026-03-29", 1, 59) + 60)
    assert (spring.minute, spring.kind) == (180, "weekend")
    before = CALENDAR.moment(unix_s("2026-03-28", 7))
    after = CALENDAR.moment(unix_s("2026-03-29", 7))
    assert before.minute == after.minute == 420
    assert after.date - before.date == 1
    first = unix_s("2026-10-25", 2, 30)
    assert CALENDAR.moment(first).minute == CALENDAR.moment(first + 3600).minute == 150
    assert CALENDAR.moment(first + 7200).minute == 210


def test_the_leap_day_is_a_day():
    days = [CALENDAR.moment(unix_s(date, 12)) for date in ("2028-02-28", "2028-02-29")]
    assert days[1].date == days[0].date + 1
    assert CALENDAR.moment(unix_s("2028-03-01", 12)).date == days[1].date + 1


@pytest.mark.parametrize("moment_s", [0.0, 1.5e9, -1e18, 1e18, float("nan"), float("inf")])
def test_a_clock_that_can_not_be_right_gives_no_moment(moment_s):
    assert CALENDAR.moment(moment_s) is None


def test_the_systems_zone_is_used_without_another(monkeypatch):
    local = dt.datetime(2026, 3, 2, 7, 30)
    assert Calendar().moment(local.timestamp()).minute == 450


def test_holidays_are_read_with_names_comments_and_yearly_days():
    holidays = parse_holidays(
        "# of the region\n\n2026-04-03 Good Friday\n12-25\n02-29 only in leap years\n"
    )
    assert dt.date(2026, 4, 3) in holidays
    assert dt.date(2027, 4, 3) not in holidays
    assert dt.date(2031, 12, 25) in holidays
    assert dt.date(2028, 2, 29) in holidays


@pytest.mark.parametrize("line", ["christmas", "2026-13-01", "02-30", "2026-02-29", "25.12."])
def test_a_line_that_is_no_day_is_refused_by_its_number_and_not_repeated(line):
    with pytest.raises(ValueError, match=r"^line 2 of the holidays file") as caught:
        parse_holidays(f"12-25\n{line}\n")
    assert line not in str(caught.value)


def test_a_holidays_file_has_a_bound():
    days = (dt.date(2000, 1, 1) + dt.timedelta(days=number) for number in range(10_001))
    with pytest.raises(ValueError, match="more than 10000 days"):
        parse_holidays("\n".join(map(str, days)))
