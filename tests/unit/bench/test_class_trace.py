"""The mixed trace: the same for the same seed, jobs all at once, streams at random times."""

from collections import Counter

from bench.class_trace import Stream, mixed_trace

JOBS = Stream(
    priority="batch",
    adapters=(3,),
    period_s=2.0,
    job_size=5,
    input_tokens=(64, 64),
    output_tokens=(8, 16),
)
PEOPLE = Stream(
    priority="interactive",
    adapters=(0, 1),
    period_s=0.1,
    job_size=0,
    input_tokens=(4, 8),
    output_tokens=(1, 2),
)


def test_the_same_seed_gives_the_same_trace_in_order_of_time():
    trace = mixed_trace([PEOPLE, JOBS], 5.0, 7)
    assert trace == mixed_trace([PEOPLE, JOBS], 5.0, 7)
    assert trace != mixed_trace([PEOPLE, JOBS], 5.0, 8)
    times = [one.at_s for one in trace]
    assert times == sorted(times)
    assert max(times) < 5.0
    assert len({one.index for one in trace}) == len(trace)


def test_a_job_comes_at_once_and_every_period():
    trace = mixed_trace([JOBS], 5.0, 7)
    assert Counter(one.at_s for one in trace) == {0.0: 5, 2.0: 5, 4.0: 5}
    assert {(one.priority, one.adapter, one.num_input_tokens) for one in trace} == {
        ("batch", 3, 64)
    }


def test_people_come_at_times_of_their_own_for_all_adapters():
    trace = mixed_trace([PEOPLE], 20.0, 7)
    assert len({one.at_s for one in trace}) == len(trace)
    assert 150 < len(trace) < 250
    assert {one.adapter for one in trace} == {0, 1}
    assert {one.num_output_tokens for one in trace} == {1, 2}
