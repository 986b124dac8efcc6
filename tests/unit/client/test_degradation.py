"""Degradations as plain values."""

from __future__ import annotations

import edgelora
from edgelora.degradation import Degradation, DegradationPreference, from_messages
from edgelora.v1 import degradation_pb2 as pb


def test_a_step_becomes_a_value():
    message = pb.Degradation(
        step=pb.DEGRADATION_STEP_SHORTER_OUTPUT,
        rule="battery_elevated",
        reading=0.15,
        max_output_tokens=256,
        explanation="battery at 15 %",
    )
    message.held.FromMilliseconds(1500)
    assert from_messages([message]) == (
        Degradation(
            step="shorter_output",
            rule="battery_elevated",
            reading=0.15,
            held_s=1.5,
            adapter_digest="",
            adapter_alias="",
            served_digest="",
            max_output_tokens=256,
            explanation="battery at 15 %",
        ),
    )


def test_every_step_has_a_name_and_one_of_a_later_release_has_one_too():
    steps = [pb.Degradation(step=number) for number in (1, 2, 3, 99)]
    named = [each.step for each in from_messages(steps)]
    assert named == ["rank_cut", "adapter_off", "shorter_output", "other"]


def test_what_nothing_tells_is_none():
    [step] = from_messages([pb.Degradation(step=pb.DEGRADATION_STEP_ADAPTER_OFF)])
    assert (step.reading, step.max_output_tokens) == (None, None)


def test_the_default_serves_what_the_device_allows():
    assert DegradationPreference().to_message() == pb.DegradationPreference()
    preference = DegradationPreference(fallback_adapter="home")
    assert preference.to_message().fallback_adapter == "home"
    assert edgelora.DegradationPreference is DegradationPreference
