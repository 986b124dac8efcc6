"""The ladder, rung by rung, and what it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgelora.v1.adapter_pb2 import ResolvedAdapter
from edgelora.v1.degradation_pb2 import DegradationStep
from services.scheduler.pressure.ladder import StepKind, descend, is_off
from services.scheduler.pressure.messages import class_refusal, degradation_message, step_refusal
from services.scheduler.pressure.policy import restrict
from services.scheduler.request import Priority
from tests.support.pressures import make_device, make_settings

BIG = ResolvedAdapter(digest="sha256:b", alias="email", strength=0.5, rank=64)
SMALL = ResolvedAdapter(digest="sha256:5", alias="home", strength=1.0, rank=8)
CUT = ResolvedAdapter(
    digest="sha256:c", alias="email", strength=0.5, rank=32, version_of_digest="sha256:b"
)


def restrictions(since_s=0.0, settings=None, **levels):
    return restrict(make_device(since_s=since_s, **levels), settings or make_settings())


def steps_of(serving):
    return [step.kind for step in serving.steps]


def explain(serving, now_s, *, others=False):
    return [
        degradation_message(step, are_others_served=others, now_s=now_s).explanation
        for step in serving.steps
    ]


def test_the_numbers_are_those_of_the_proto():
    for kind in StepKind:
        assert DegradationStep.Value(f"DEGRADATION_STEP_{kind.name}") == kind


def test_a_calm_device_serves_what_was_asked():
    serving = descend([BIG, SMALL], None, 512, restrictions())
    assert (list(serving.adapters), serving.max_output_tokens) == ([BIG, SMALL], 512)
    assert steps_of(serving) == []


def test_an_adapter_above_the_ceiling_is_off_and_the_base_answers():
    serving = descend([BIG], None, 512, restrictions(temperature="ELEVATED"))
    assert list(serving.adapters) == []
    assert steps_of(serving) == [StepKind.ADAPTER_OFF]
    assert explain(serving, 12.0) == [
        'device at 47 °C for 12 s: adapter "email" of rank 64 is off, the base model answers'
    ]


def test_a_mix_loses_only_what_is_above_the_ceiling():
    serving = descend([BIG, SMALL], None, 512, restrictions(temperature="ELEVATED"))
    assert list(serving.adapters) == [SMALL]
    [said] = explain(serving, 180.0, others=True)
    assert said == 'device at 47 °C for 3 min: adapter "email" of rank 64 is off, the others answer'


def test_the_ceiling_itself_is_served_and_an_unknown_rank_is_not():
    hot = restrictions(temperature="ELEVATED")
    assert not is_off(ResolvedAdapter(rank=32), hot)
    assert is_off(ResolvedAdapter(rank=33), hot)
    assert is_off(ResolvedAdapter(rank=0), hot)
    assert not is_off(ResolvedAdapter(rank=0), restrictions())


def test_a_lower_rank_version_is_said_to_be_one():
    serving = descend([CUT], None, 512, restrictions(temperature="ELEVATED"))
    assert list(serving.adapters) == [CUT]
    [step] = serving.steps
    message = degradation_message(step, are_others_served=True, now_s=5.0)
    assert message.step == DegradationStep.DEGRADATION_STEP_RANK_CUT
    assert (message.adapter_digest, message.served_digest) == ("sha256:b", "sha256:c")
    assert message.explanation == 'device at 47 °C for 5 s: adapter "email" is served at rank 32'


def test_a_version_that_the_request_names_too_is_served_once_with_both_strengths():
    named = ResolvedAdapter(digest=CUT.digest, alias="email-32", strength=1.0, rank=32)
    serving = descend([CUT, named], None, 512, restrictions(temperature="ELEVATED"))
    assert [(each.digest, each.strength) for each in serving.adapters] == [(CUT.digest, 1.5)]
    assert steps_of(serving) == [StepKind.RANK_CUT]
    named.strength = 2.0
    serving = descend([CUT, named], None, 512, restrictions(temperature="ELEVATED"))
    assert [each.strength for each in serving.adapters] == [2.0]


def test_a_version_that_is_still_too_large_is_off():
    serving = descend([CUT], None, 512, restrictions(temperature="CRITICAL"))
    assert steps_of(serving) == [StepKind.ADAPTER_OFF]
    message = degradation_message(serving.steps[0], are_others_served=False, now_s=5.0)
    assert message.adapter_digest == "sha256:b"


def test_the_fallback_takes_the_place_and_the_strength():
    serving = descend([BIG], SMALL, 512, restrictions(temperature="ELEVATED"))
    [served] = serving.adapters
    assert (served.digest, served.strength) == (SMALL.digest, 0.5)
    assert SMALL.strength == 1.0
    message = degradation_message(serving.steps[0], are_others_served=False, now_s=1.0)
    assert message.served_digest == SMALL.digest
    assert message.explanation.endswith('is off, adapter "home" answers')


def test_a_fallback_that_is_too_large_itself_leaves_the_base():
    other = ResolvedAdapter(digest="sha256:d", alias="big", strength=1.0, rank=48)
    serving = descend([BIG], other, 512, restrictions(temperature="ELEVATED"))
    assert list(serving.adapters) == []
    assert serving.steps[0].served is None


def test_a_fallback_in_the_mix_already_is_not_added_again():
    serving = descend([BIG, SMALL], SMALL, 512, restrictions(temperature="ELEVATED"))
    assert list(serving.adapters) == [SMALL]


def test_one_fallback_stands_for_all_that_are_off():
    other = ResolvedAdapter(digest="sha256:d", alias="big", strength=1.5, rank=48)
    serving = descend([BIG, other], SMALL, 512, restrictions(temperature="ELEVATED"))
    assert [(each.digest, each.strength) for each in serving.adapters] == [(SMALL.digest, 1.5)]
    assert steps_of(serving) == [StepKind.ADAPTER_OFF] * 2


def test_long_answers_are_cut_on_a_low_battery_and_short_ones_are_not():
    low = restrictions(battery="ELEVATED")
    serving = descend([], None, 512, low)
    assert (serving.max_output_tokens, steps_of(serving)) == (256, [StepKind.SHORTER_OUTPUT])
    [said] = explain(serving, 7200.0)
    assert said == "battery at 15 % for 2 h: answers have at most 256 tokens"
    serving = descend([], None, 256, low)
    assert (serving.max_output_tokens, steps_of(serving)) == (256, [])


def test_the_rungs_come_in_their_order():
    hot = restrictions(temperature="ELEVATED", battery="CRITICAL")
    serving = descend([BIG, CUT], None, 512, hot)
    assert steps_of(serving) == list(StepKind)


levels = st.sampled_from(["NORMAL", "ELEVATED", "CRITICAL", "UNKNOWN"])


@given(
    st.lists(st.sampled_from([BIG, SMALL, CUT]), max_size=4, unique_by=lambda a: a.digest),
    st.sampled_from([None, BIG, SMALL, CUT]),
    st.integers(1, 1000),
    st.fixed_dictionaries({"temperature": levels, "memory": levels, "battery": levels}),
)
def test_what_is_served_is_always_allowed_and_every_change_has_a_step(
    asked, fallback, tokens, device
):
    now = restrictions(**device)
    serving = descend(asked, fallback, tokens, now)
    assert serving.is_allowed(now)
    is_changed = list(serving.adapters) != asked or serving.max_output_tokens != tokens
    assert is_changed <= bool(serving.steps)
    assert not descend(serving.adapters, None, serving.max_output_tokens, restrictions()).steps


def test_refusals_name_the_rule_the_reading_and_when_to_come_back():
    full = restrictions(since_s=100.0, memory="CRITICAL").refusal_of(Priority.INTERACTIVE)
    error = class_refusal(full, retry_after_s=10.0, now_s=104.0)
    assert error.message == "memory at 87 % for 4 s: no new requests: try again in 10 s"
    assert error.metadata == {
        "rule": "memory_critical",
        "reading": "0.87",
        "held_s": "4.0",
        "step": "refusal",
    }
    assert error.retry_after_s == 10.0
    empty = restrictions(battery="CRITICAL").refusal_of(Priority.BATCH)
    message = class_refusal(empty, retry_after_s=10.0, now_s=1.0).message
    assert message.startswith("battery at 8 % for 1 s: no new background and batch requests: ")


@pytest.mark.parametrize(
    ("asked", "levels", "step", "said"),
    [
        (BIG, {"temperature": "ELEVATED"}, "adapter_off", "adapters[0] is off"),
        (CUT, {"temperature": "ELEVATED"}, "rank_cut", "adapters[0] is cut to a lower rank"),
        (SMALL, {"battery": "ELEVATED"}, "shorter_output", "answers have at most 256 tokens"),
    ],
)
def test_a_refused_step_is_named_without_the_callers_words(asked, levels, step, said):
    serving = descend([asked], None, 512, restrictions(**levels))
    error = step_refusal(serving.steps[0], retry_after_s=10.0, now_s=1.0)
    assert error.metadata["step"] == step
    assert said in error.message
    assert asked.alias not in error.message


def test_an_unknown_dimension_gives_no_reading():
    settings = make_settings(TEMPERATURE_UNKNOWN="elevated")
    serving = descend([BIG], None, 512, restrictions(settings=settings, temperature="UNKNOWN"))
    message = degradation_message(serving.steps[0], are_others_served=False, now_s=2.0)
    assert message.rule == "temperature_unknown"
    assert not message.HasField("reading")
    assert message.explanation.startswith("temperature unknown for 2 s: ")
