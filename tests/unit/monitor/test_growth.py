"""The leak indicator (A15): steady growth is named, whatever else memory does is not."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from services.monitor.growth import MemoryGrowth
from services.monitor.sample import DeviceSample, ProcessUse
from tests.support.sampler_bench import SamplerBench

WINDOW_S = 1800.0
WARM_UP_S = WINDOW_S / 3
MIB = 2**20
HOUR_S = 3600.0


def use(service, rss_bytes, pid=1):
    return ProcessUse(service=service, pid=pid, rss_bytes=int(rss_bytes), cpu_cores=0.1)


def judge(rss_at, *, last_s=2 * WINDOW_S, interval_s=10.0):
    """What is said of a process whose memory is `rss_at(seconds)`, after `last_s`."""
    growth = MemoryGrowth(WINDOW_S)
    now_s, judged = 0.0, None
    while now_s <= last_s:
        (judged,) = growth.judged([use("p", rss_at(now_s))], now_s)
        now_s += interval_s
    return judged


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    base=st.integers(10, 2000),
    amplitude=st.floats(0.001, 200.0),
    is_gaussian=st.booleans(),
)
def test_noise_is_no_leak_A15(seed, base, amplitude, is_gaussian):
    noise = random.Random(seed)
    draw = noise.gauss if is_gaussian else noise.uniform
    judged = judge(lambda _: base * MIB + amplitude * MIB * draw(0.0, 1.0))
    assert judged.growth_bytes_per_hour is not None
    assert not judged.is_growing


@settings(max_examples=60, deadline=None)
@given(
    period_s=st.floats(20.0, WINDOW_S / 2),
    phase=st.floats(0.0, 1.0),
    height=st.floats(0.1, 500.0),
)
def test_a_sawtooth_is_no_leak_A15(period_s, phase, height):
    judged = judge(lambda now_s: (100 + height * ((now_s / period_s + phase) % 1.0)) * MIB)
    assert not judged.is_growing


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.floats(0.0, 2 * WINDOW_S), st.floats(-50.0, 300.0)), max_size=3),
    seed=st.integers(0, 10**9),
)
def test_steps_are_no_leak_A15(steps, seed):
    noise = random.Random(seed)

    def rss(now_s):
        stepped = sum(height for at_s, height in steps if now_s >= at_s)
        return (500 + stepped + noise.uniform(0.0, 0.5)) * MIB

    assert not judge(rss).is_growing


@settings(max_examples=60, deadline=None)
@given(
    mib_per_hour=st.floats(4.0, 2000.0),
    noise_share=st.floats(0.0, 0.3),
    seed=st.integers(0, 10**9),
)
def test_steady_growth_is_a_leak_and_its_rate_is_told_A15(mib_per_hour, noise_share, seed):
    """Under noise of up to 30 % of what it grows in half a window."""
    noise = random.Random(seed)
    amplitude = noise_share * mib_per_hour * WINDOW_S / 2 / HOUR_S
    judged = judge(
        lambda now_s: (200 + mib_per_hour * now_s / HOUR_S + noise.uniform(0, amplitude)) * MIB
    )
    assert judged.is_growing
    assert judged.growth_bytes_per_hour == pytest.approx(mib_per_hour * MIB, rel=0.25)


@settings(max_examples=40, deadline=None)
@given(mib_per_hour=st.floats(4.0, 200.0), phase=st.floats(0.0, 1.0))
def test_a_leak_below_a_sawtooth_is_found(mib_per_hour, phase):
    """The collector's teeth are as high as a quarter of what leaks in the window."""
    height = mib_per_hour * WINDOW_S / 4 / HOUR_S
    judged = judge(
        lambda now_s: (
            (80 + mib_per_hour * now_s / HOUR_S + height * ((now_s / 120 + phase) % 1.0)) * MIB
        )
    )
    assert judged.is_growing


def test_a_leak_that_an_allocator_takes_in_arenas_is_found():
    """6 MiB an hour, 256 KiB at a time."""
    arena = 256 * 1024
    judged = judge(lambda now_s: 90 * MIB + 6 * MIB * now_s / HOUR_S // arena * arena)
    assert judged.is_growing


def test_what_grows_slower_than_can_be_told_is_no_leak():
    assert not judge(lambda now_s: 90 * MIB + 0.5 * MIB * now_s / HOUR_S).is_growing


def test_shrinking_is_no_leak_and_has_a_rate_below_0():
    judged = judge(lambda now_s: 900 * MIB - 100 * MIB * now_s / HOUR_S)
    assert not judged.is_growing
    assert judged.growth_bytes_per_hour == pytest.approx(-100 * MIB, rel=0.05)


def test_warm_up_does_not_count_and_nothing_is_told_before_a_whole_window():
    def rss(now_s):
        return (50 + min(now_s, WARM_UP_S)) * MIB

    assert judge(rss, last_s=WARM_UP_S + WINDOW_S - 60).growth_bytes_per_hour is None
    judged = judge(rss, last_s=WARM_UP_S + WINDOW_S + 60)
    assert judged.growth_bytes_per_hour == 0.0
    assert not judged.is_growing


def test_a_new_process_of_a_service_begins_anew():
    growth = MemoryGrowth(WINDOW_S)
    now_s = 0.0
    while now_s <= 2 * WINDOW_S:
        (judged,) = growth.judged([use("p", 100 * MIB + 10_000 * now_s)], now_s)
        now_s += 10.0
    assert judged.is_growing
    (restarted,) = growth.judged([use("p", 100 * MIB, pid=2)], now_s)
    assert restarted.growth_bytes_per_hour is None
    assert not restarted.is_growing


def test_what_is_kept_is_bounded_and_goes_with_the_process():
    growth = MemoryGrowth(WINDOW_S)
    for second in range(20_000):
        growth.judged([use("a", MIB), use("b", MIB)], float(second))
    points = [len(history._points) for history in growth._histories.values()]
    assert points == [60, 60]
    growth.judged([], 20_000.0)
    assert not growth._histories


async def test_the_culprit_is_named_once_in_the_log_A15(config, clock):
    window_s = config.growth_window_s

    def read():
        leaked = 10_000 * clock()
        return DeviceSample(processes=[use("gateway", 80 * MIB), use("inference", MIB + leaked)])

    bench = SamplerBench(read, config, clock)
    with capture_logs() as logs:
        while clock() < 2 * window_s:
            await bench.tick()
            clock.advance(9.0)
    (line,) = [line for line in logs if line["event"] == "memory_grows_steadily"]
    assert line["name"] == "inference"
    assert line["growth_bytes_per_hour"] == pytest.approx(10_000 * HOUR_S, rel=0.05)
    await bench.sampler.sample()
    growing = {process.service: process.is_growing for process in bench.now.processes}
    assert growing == {"gateway": False, "inference": True}
