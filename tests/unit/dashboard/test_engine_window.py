"""Shares add up to the engine's total, whatever comes and goes between two readings."""

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from edgelora.v1.inference_service_pb2 import AdapterShare, GetEngineStatusResponse
from services.gateway.dashboard.engine_window import BASE, REST, EngineWindow


def duration(seconds):
    made = Duration()
    made.FromMicroseconds(round(seconds * 1e6))
    return made


def status(shares, *, steps):
    """`shares`: digest -> (engine seconds, output tokens)."""
    return GetEngineStatusResponse(
        num_steps=steps,
        step_time=duration(sum(seconds for seconds, _ in shares.values())),
        num_output_tokens=sum(tokens for _, tokens in shares.values()),
        shares=[
            AdapterShare(digest=digest, step_time=duration(seconds), num_output_tokens=tokens)
            for digest, (seconds, tokens) in shares.items()
        ],
    )


def shares_of(use):
    return {adapter.digest: adapter.share for adapter in use.adapters}


def test_nothing_is_known_before_the_second_reading():
    window = EngineWindow()
    assert window.use() is None
    window.add(0.0, status({BASE: (1.0, 10)}, steps=1))
    assert window.use() is None


def test_the_use_is_what_came_between_the_readings():
    window = EngineWindow()
    window.add(10.0, status({BASE: (1.0, 10), "a": (2.0, 50)}, steps=5))
    window.add(12.0, status({BASE: (1.5, 20), "a": (3.0, 90)}, steps=9))
    use = window.use()
    assert use.share == pytest.approx(0.75)
    assert use.output_tokens_per_s == pytest.approx(25.0)
    assert shares_of(use) == {"a": pytest.approx(0.5), BASE: pytest.approx(0.25)}
    assert [adapter.digest for adapter in use.adapters] == ["a", BASE]
    assert use.adapters[0].output_tokens_per_s == pytest.approx(20.0)


def test_what_used_nothing_is_not_listed():
    window = EngineWindow()
    window.add(0.0, status({BASE: (1.0, 10), "a": (2.0, 50)}, steps=5))
    window.add(1.0, status({BASE: (1.5, 20), "a": (2.0, 50)}, steps=6))
    assert shares_of(window.use()) == {BASE: pytest.approx(0.5)}


def test_only_the_last_seconds_count():
    window = EngineWindow(window_s=5.0)
    for second in range(21):
        busy = min(second, 10)
        window.add(float(second), status({BASE: (busy, 0)}, steps=second))
    assert window.use().share == 0.0


def test_two_readings_far_apart_still_tell():
    window = EngineWindow(window_s=5.0)
    for at_s, busy_s in ((0.0, 0.0), (60.0, 30.0), (120.0, 45.0)):
        window.add(at_s, status({BASE: (busy_s, 0)}, steps=round(at_s)))
    assert window.use().share == pytest.approx(0.25)


def test_an_adapter_that_moves_to_the_rest_is_not_counted_twice():
    window = EngineWindow()
    window.add(0.0, status({"a": (9.0, 900), "b": (1.0, 10), REST: (5.0, 5)}, steps=5))
    window.add(1.0, status({"b": (1.5, 20), REST: (14.25, 915)}, steps=9))
    use = window.use()
    assert shares_of(use) == {"b": pytest.approx(0.5), REST: pytest.approx(0.25)}
    assert sum(shares_of(use).values()) == pytest.approx(use.share)


@pytest.mark.parametrize("broken", ["restarted", "silent"])
def test_a_new_worker_or_silence_begins_anew(broken):
    window = EngineWindow()
    window.add(0.0, status({BASE: (10.0, 10)}, steps=100))
    window.add(1.0, status({BASE: (1.0, 10)}, steps=3) if broken == "restarted" else None)
    assert window.use() is None


@given(
    before=st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 50), max_size=6),
    grown=st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 5), min_size=1, max_size=6),
    moved=st.sets(st.sampled_from("abc")),
)
def test_the_shares_add_up_to_the_total_within_two_percent(before, grown, moved):
    now = {digest: before.get(digest, 0.0) + grown.get(digest, 0.0) for digest in "abcdef"}
    kept = {digest: seconds for digest, seconds in now.items() if digest not in moved}
    kept[REST] = sum(now[digest] for digest in moved)
    first = {digest: (seconds, 0) for digest, seconds in before.items()}
    window = EngineWindow()
    window.add(0.0, status(first, steps=1))
    window.add(2.0, status({digest: (s, 0) for digest, s in kept.items()}, steps=2))
    use = window.use()
    total = sum(adapter.share for adapter in use.adapters)
    assert total == pytest.approx(use.share, rel=0.02, abs=1e-5)
