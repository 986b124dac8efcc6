"""The workload generator draws what it says, and never waits for an answer."""

import dataclasses
import inspect
import itertools
import statistics

import pytest

from bench import workload as workload_module
from bench.workload import Workload, choose_adapter, schedule

WORKLOAD = Workload(
    num_adapters=50,
    alpha=1.0,
    rate_per_s=20.0,
    cv=1.0,
    duration_s=1000.0,
    input_tokens=(8, 128),
    output_tokens=(8, 256),
    seed=7,
)


def with_(**changes):
    return dataclasses.replace(WORKLOAD, **changes)


def gaps(arrivals):
    times = [0.0, *(arrival.at_s for arrival in arrivals)]
    return [after - before for before, after in itertools.pairwise(times)]


def test_there_are_rate_times_duration_requests():
    assert len(schedule(with_(rate_per_s=0.5, duration_s=61.0))) == 30


def test_the_same_seed_gives_the_same_workload_and_another_seed_another():
    assert schedule(WORKLOAD) == schedule(WORKLOAD)
    assert schedule(WORKLOAD) != schedule(with_(seed=8))


@pytest.mark.parametrize("cv", [0.5, 1.0, 1.5, 4.0])
def test_gaps_have_the_asked_mean_and_variation(cv):
    sample = gaps(schedule(with_(cv=cv)))
    mean = statistics.fmean(sample)
    assert mean == pytest.approx(1 / 20, rel=0.08)
    assert statistics.stdev(sample) / mean == pytest.approx(cv, rel=0.08)


def test_arrivals_are_in_order_of_time():
    times = [arrival.at_s for arrival in schedule(with_(cv=8.0))]
    assert times == sorted(times)
    assert times[0] > 0


# Share of the requests that go to the top 1 %, 10 % and 20 % of the adapters.
@pytest.mark.parametrize(
    ("alpha", "shares"),
    [
        (1.0, (0.01, 0.10, 0.20)),
        (0.6, (0.06, 0.25, 0.38)),
        (0.3, (0.25, 0.50, 0.62)),
        (0.1, (0.63, 0.79, 0.85)),
    ],
)
def test_the_choice_of_adapters_follows_the_power_law(alpha, shares):
    arrivals = schedule(with_(alpha=alpha, num_adapters=1000))
    for top, share in zip((10, 100, 200), shares, strict=True):
        chosen = sum(arrival.adapter < top for arrival in arrivals) / len(arrivals)
        assert chosen == pytest.approx(share, abs=0.012)


def test_a_cache_of_ten_of_fifty_hits_as_often_as_the_law_says():
    for alpha, rate in [(1.0, 0.20), (0.6, 0.38), (0.3, 0.62), (0.1, 0.85)]:
        arrivals = schedule(with_(alpha=alpha))
        hits = sum(arrival.adapter < 10 for arrival in arrivals) / len(arrivals)
        assert hits == pytest.approx(rate, abs=0.012)


def test_every_choice_is_an_adapter():
    assert choose_adapter(50, 1.0, 0.0) == 0
    assert choose_adapter(50, 1.0, 1.0 - 2**-53) == 49
    assert choose_adapter(1, 0.3, 0.999) == 0
    assert {arrival.adapter for arrival in schedule(WORKLOAD)} == set(range(50))


def test_lengths_are_uniform_within_their_bounds():
    arrivals = schedule(WORKLOAD)
    for lengths, low, high in (
        ([arrival.num_input_tokens for arrival in arrivals], 8, 128),
        ([arrival.num_output_tokens for arrival in arrivals], 8, 256),
    ):
        assert min(lengths) == low
        assert max(lengths) == high
        assert statistics.fmean(lengths) == pytest.approx((low + high) / 2, rel=0.03)


def test_lengths_and_adapters_do_not_depend_on_the_rate():
    """Two rates of one seed carry the same work, so their figures compare."""
    slow = schedule(with_(rate_per_s=2.0, duration_s=100.0))
    fast = schedule(with_(rate_per_s=20.0, duration_s=10.0))

    def work(arrivals):
        return [(one.adapter, one.num_input_tokens, one.num_output_tokens) for one in arrivals]

    assert work(slow) == work(fast)
    assert fast[-1].at_s == pytest.approx(slow[-1].at_s / 10)


def test_the_schedule_knows_nothing_of_completions():
    """Open loop by construction: times come from the parameters and the seed alone."""
    assert list(inspect.signature(workload_module.schedule).parameters) == ["workload"]


@pytest.mark.parametrize(
    "change",
    [
        {"num_adapters": 0},
        {"alpha": 0.0},
        {"rate_per_s": -1.0},
        {"cv": float("nan")},
        {"duration_s": float("inf")},
        {"input_tokens": (0, 8)},
        {"output_tokens": (9, 8)},
    ],
)
def test_a_senseless_parameter_is_named(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        with_(**change)
