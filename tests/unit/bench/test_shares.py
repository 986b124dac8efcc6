"""Shares, spreads and gaps against values worked out by hand."""

import pytest

from bench.shares import (
    jain_index,
    longest_gap_s,
    ratio,
    reduction,
    served_tokens,
    spread,
    waits_s,
)
from tests.support.request_records import record


def test_jains_index_is_1_for_equal_shares_and_1_of_n_for_one_that_has_all():
    assert jain_index([7, 7, 7]) == pytest.approx(1.0)
    assert jain_index([9, 0, 0]) == pytest.approx(1 / 3)
    assert jain_index([1, 2, 3]) == pytest.approx(36 / 42)
    assert jain_index([0, 0]) is None


def test_tokens_count_when_they_come_and_a_prompt_with_the_first_of_them():
    one = record(10.0, token_times=[1.0, 2.0, 3.0], num_input=100)
    assert served_tokens([one], 11.0, 13.0) == 100 + 2
    assert served_tokens([one], 12.0, 99.0) == 2
    assert served_tokens([one, one], 0.0, 99.0) == 2 * 103
    assert served_tokens([record(first=None, finished=None)], 0.0, 99.0) == 0


def test_the_spread_is_that_of_the_whole_population():
    found = spread([0.1, 0.3])
    assert (found["mean_ms"], found["std_ms"], found["p50_ms"]) == (200.0, 100.0, 200.0)
    assert (found["p99_ms"], found["max_ms"]) == (pytest.approx(298.0), 300.0)
    assert set(spread([]).values()) == {None}


def test_waits_are_those_of_answers_from_the_scheduled_arrival():
    assert waits_s([record(5.0, first=0.5), record(finished=None, first=0.1)]) == [0.5]


def test_a_reduction_is_what_is_gone_and_may_be_negative():
    assert reduction(200.0, 50.0) == 0.75
    assert reduction(100.0, 110.0) == pytest.approx(-0.1)
    assert reduction(0.0, 1.0) is None
    assert reduction(1.0, None) is None
    assert (ratio(3.0, 2.0), ratio(None, 2.0), ratio(1.0, 0.0)) == (1.5, None, None)


def test_the_longest_gap_counts_the_edges_of_the_stretch():
    came = [record(first=each) for each in (2.0, 3.0, 7.0)]
    assert longest_gap_s(came, 1.0, 9.0) == 4.0
    assert longest_gap_s(came, 1.0, 20.0) == 13.0
    assert longest_gap_s([], 1.0, 4.0) == 3.0
