"""The client's typed values and their wire forms."""

from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration

from edgelora.generation import (
    Accepted,
    Delta,
    Done,
    GenerationOptions,
    TokenLogprob,
    Usage,
    UsedAdapter,
    from_event,
    to_priority,
    to_selections,
)
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterLineage, AdapterSelection, ResolvedAdapter
from edgelora.v1.generation_pb2 import (
    GenerationOptions as OptionsMessage,
)
from edgelora.v1.generation_pb2 import (
    PriorityClass,
    TopLogprob,
)
from edgelora.v1.generation_pb2 import (
    TokenLogprob as TokenLogprobMessage,
)
from edgelora.v1.generation_pb2 import (
    Usage as UsageMessage,
)


@pytest.mark.parametrize(
    ("adapters", "expected"),
    [
        ((), []),
        ("mail", [("mail", None)]),
        (["mail", "tutor"], [("mail", None), ("tutor", None)]),
        ({"mail": 0.0, "tutor": 2.0}, [("mail", 0.0), ("tutor", 2.0)]),
    ],
)
def test_adapters_may_be_one_several_or_weighted(adapters, expected):
    selections = to_selections(adapters)
    assert all(isinstance(selection, AdapterSelection) for selection in selections)
    assert [
        (entry.adapter, entry.strength if entry.HasField("strength") else None)
        for entry in selections
    ] == expected


def test_absent_options_stay_absent_and_zeros_are_sent():
    assert GenerationOptions().to_message() == OptionsMessage(
        stop=GenerationOptions().to_message().stop
    )
    empty = GenerationOptions().to_message()
    assert not empty.sampling.HasField("temperature")
    assert not empty.stop.HasField("max_tokens")
    assert not empty.HasField("logprobs")
    zeros = GenerationOptions(temperature=0.0, max_tokens=0, seed=0, logprobs=0).to_message()
    assert zeros.sampling.HasField("temperature")
    assert zeros.sampling.HasField("seed")
    assert zeros.stop.HasField("max_tokens")
    assert zeros.HasField("logprobs")


def test_every_option_has_its_field():
    values = {
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.25,
        "min_p": 0.125,
        "repetition_penalty": 1.5,
        "presence_penalty": -1.0,
        "frequency_penalty": 0.75,
        "seed": 9,
    }
    message = GenerationOptions(
        max_tokens=5, stop_strings=["x"], stop_token_ids=[1], ignore_eos=True, **values
    ).to_message()
    assert {name: getattr(message.sampling, name) for name in values} == values
    assert list(message.stop.stop_strings) == ["x"]
    assert list(message.stop.stop_token_ids) == [1]
    assert message.stop.ignore_eos


def test_priorities():
    assert to_priority("interactive") == PriorityClass.PRIORITY_CLASS_INTERACTIVE
    assert to_priority("batch") == PriorityClass.PRIORITY_CLASS_BATCH
    with pytest.raises(ValueError, match="interactive, background, batch"):
        to_priority("urgent")


def test_events_become_plain_values():
    accepted = pb.Accepted(
        request_id="r",
        queue_position=2,
        adapters=[
            ResolvedAdapter(
                digest="sha256:1",
                alias="mail",
                strength=0.5,
                generation=3,
                certificate_digest="sha256:2",
                lineage=AdapterLineage(source="upload", parent_digest="sha256:0"),
            )
        ],
    )
    assert from_event(pb.GenerationEvent(accepted=accepted)) == Accepted(
        request_id="r",
        queue_position=2,
        adapters=(
            UsedAdapter(
                digest="sha256:1",
                alias="mail",
                strength=0.5,
                generation=3,
                certificate_digest="sha256:2",
                source="upload",
                parent_digest="sha256:0",
            ),
        ),
    )
    delta = pb.GenerationEvent()
    delta.delta.text = "Hi"
    delta.delta.token_ids.append(4)
    delta.delta.logprobs.append(
        TokenLogprobMessage(token_id=4, logprob=-0.5, top=[TopLogprob(token_id=4, logprob=-0.5)])
    )
    assert from_event(delta) == Delta(
        text="Hi",
        token_ids=(4,),
        logprobs=(TokenLogprob(token_id=4, logprob=-0.5, top=((4, -0.5),)),),
    )
    usage = UsageMessage(
        num_prompt_tokens=17,
        num_output_tokens=2,
        queue_time=Duration(seconds=1, nanos=500_000_000),
        num_cached_prompt_tokens=16,
        engine_time=Duration(nanos=250_000_000),
    )
    assert from_event(pb.GenerationEvent(usage=usage)) == Usage(
        num_prompt_tokens=17,
        num_output_tokens=2,
        queue_s=1.5,
        adapter_load_s=None,
        time_to_first_token_s=None,
        total_s=None,
        mean_batch_size=0.0,
        num_preemptions=0,
        num_cached_prompt_tokens=16,
        engine_s=0.25,
    )
    done = pb.Done(finish_reason=2, stop_string="x")
    assert from_event(pb.GenerationEvent(done=done)) == Done(
        finish_reason="length", stop_string="x"
    )
    assert from_event(pb.GenerationEvent()) is None
