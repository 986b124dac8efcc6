"""Estimates from what released leases took."""

from __future__ import annotations

import pytest

from services.scheduler.pace import Answer, Pace


def answered(pace, *, first_token_s=1.0, num_output_tokens=11, token_s=0.1, now_s=0.0):
    answer = Answer(num_output_tokens=num_output_tokens, first_token_s=first_token_s)
    pace.record(answer, first_token_s + (num_output_tokens - 1) * token_s, now_s)


def unanswered(pace, lease_s, now_s=0.0):
    pace.record(Answer(num_output_tokens=0, first_token_s=None), lease_s, now_s)


def test_nothing_is_known_before_a_few_answers():
    pace = Pace()
    for _ in range(3):
        answered(pace)
        assert pace.estimate(0.0) is None
    answered(pace)
    assert pace.estimate(0.0) is not None


def test_what_is_known():
    pace = Pace()
    for num_output_tokens in (11, 21, 31, 41):
        answered(pace, num_output_tokens=num_output_tokens)
    estimate = pace.estimate(0.0)
    assert estimate.lease_s == pytest.approx(1.0 + 2.5)
    assert estimate.first_token_s == pytest.approx(1.0)
    assert estimate.token_s == pytest.approx(0.1)
    assert estimate.short_answer_tokens == 11
    assert estimate.shortest_answer_s(100) == pytest.approx(2.0)
    assert estimate.shortest_answer_s(3) == pytest.approx(1.2)
    # Four before it on seven places, and half a turn: 4.5 / 7 leases.
    assert estimate.wait_s(4, 7) == pytest.approx(4.5 * 3.5 / 7)


def test_one_slow_load_of_an_adapter_changes_little():
    pace = Pace()
    for _ in range(8):
        answered(pace)
    answered(pace, first_token_s=60.0)
    assert pace.estimate(0.0).first_token_s == 1.0


def test_the_newest_sixteen_count():
    pace = Pace()
    for first_token_s in [1.0] * 16 + [5.0] * 16:
        answered(pace, first_token_s=first_token_s)
    assert pace.estimate(0.0).first_token_s == 5.0


def test_it_is_forgotten_when_nothing_has_ended_for_a_while():
    """An estimate that refuses everybody gets no new answers: it must not live for ever."""
    pace = Pace()
    for _ in range(4):
        answered(pace, now_s=5.0)
    assert pace.estimate(14.9) is not None
    assert pace.estimate(15.0) is None


def test_requests_that_got_no_token_in_time_say_that_it_takes_longer():
    pace = Pace()
    for _ in range(4):
        answered(pace)
    for _ in range(3):
        unanswered(pace, 0.01)
    assert pace.estimate(0.0).first_token_s == 1.0
    for _ in range(10):
        unanswered(pace, 30.0)
    assert pace.estimate(0.0).first_token_s == 30.0


def test_requests_that_got_no_token_are_no_estimate_by_themselves():
    pace = Pace()
    for _ in range(10):
        unanswered(pace, 1.0)
    assert pace.estimate(0.0) is None


def test_answers_of_one_token_have_no_pace_between_tokens():
    pace = Pace()
    for _ in range(4):
        answered(pace, num_output_tokens=1)
    assert pace.estimate(0.0).token_s == 0.0
    assert pace.estimate(0.0).shortest_answer_s(50) == 1.0
