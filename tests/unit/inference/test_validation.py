"""From wire options and a ticket to what the engine takes."""

import math

import pytest

from edgelora.errors import AdapterRejectedError, InvalidRequestError
from edgelora.v1.adapter_pb2 import ResolvedAdapter
from edgelora.v1.generation_pb2 import GenerationOptions, ToolUse
from edgelora.v1.generation_pb2 import SamplingParams as SamplingMessage
from edgelora.v1.generation_pb2 import StopConditions as StopMessage
from services.inference.engine.sequence import AdapterUse, Priority, SamplingParams
from services.inference.refusals import Refusals
from services.inference.validation import (
    check_generation,
    to_adapters,
    to_priority,
    to_sampling,
    to_stop,
)


def test_stop_token_ids_must_be_in_the_vocabulary_P05():
    check_generation(GenerationOptions(stop=StopMessage(stop_token_ids=[99])), ToolUse(), 100)
    for token_id in (100, 151645, 2**32 - 1):
        with pytest.raises(InvalidRequestError) as caught:
            check_generation(
                GenerationOptions(stop=StopMessage(stop_token_ids=[1, token_id])), ToolUse(), 100
            )
        assert caught.value.field == "options.stop.stop_token_ids[1]"


def test_the_worker_checks_what_the_gateway_checks():
    with pytest.raises(InvalidRequestError):
        check_generation(
            GenerationOptions(sampling=SamplingMessage(temperature=math.nan)), ToolUse(), 100
        )


def test_absent_fields_take_the_stated_defaults():
    assert to_sampling(SamplingMessage()) == SamplingParams()
    assert to_sampling(SamplingMessage(seed=0, temperature=0.5)) == SamplingParams(
        seed=0, temperature=0.5
    )
    stop = to_stop(StopMessage(), room=1000, ticket_limit=0)
    assert (stop.max_tokens, stop.stop_strings, stop.ignore_eos) == (256, (), False)


@pytest.mark.parametrize(
    ("asked", "room", "ticket_limit", "expected"),
    [(10, 100, 0, 10), (10**9, 100, 0, 100), (50, 100, 20, 20), (50, 7, 20, 7)],
)
def test_max_tokens_is_clipped_to_the_room_P04(asked, room, ticket_limit, expected):
    message = StopMessage(max_tokens=asked)
    assert to_stop(message, room=room, ticket_limit=ticket_limit).max_tokens == expected


def adapter(digest, strength):
    return ResolvedAdapter(digest=digest, strength=strength)


def test_strength_zero_is_no_adapter_and_equal_digests_add_up():
    uses = to_adapters([adapter("a", 0.5), adapter("b", 0.0), adapter("a", 1.0)], 4)
    assert uses == (AdapterUse("a", 1.5),)


@pytest.mark.parametrize("strength", [-0.1, 2.1, math.nan, math.inf])
def test_strengths_out_of_range_are_refused(strength):
    with pytest.raises(InvalidRequestError) as caught:
        to_adapters([adapter("a", 1.0), adapter("b", strength)], 4)
    assert caught.value.field == "adapters[1].strength"


def test_more_adapters_than_slots_are_refused():
    with pytest.raises(InvalidRequestError):
        to_adapters([adapter("a", 1.0), adapter("b", 1.0)], 1)


def test_priorities():
    assert to_priority(0) is Priority.INTERACTIVE
    assert to_priority(3) is Priority.BATCH
    with pytest.raises(InvalidRequestError):
        to_priority(9)


def test_a_refusal_stands_for_its_time_and_no_longer_A04():
    refusals = Refusals(hold_s=30.0)
    refusals.add("bad", AdapterRejectedError("no", field="weights"), 100.0)
    assert refusals.find("good", "t", 100.0) is None
    again = refusals.find("bad", "t", 129.9)
    assert isinstance(again, AdapterRejectedError)
    assert (again.message, again.field) == ("no", "weights")
    assert again is not refusals.find("bad", "t", 129.9)
    assert list(refusals.current(129.9)) == ["bad"]
    assert refusals.find("bad", "t", 130.0) is None
    assert refusals.current(130.0) == {}


def test_what_one_tenant_could_not_fetch_another_may_T34():
    refusals = Refusals(hold_s=30.0)
    refusals.add("bad", AdapterRejectedError("no"), 0.0, tenant_id="a")
    assert refusals.find("bad", "a", 1.0) is not None
    assert refusals.find("bad", "b", 1.0) is None
    assert list(refusals.current(1.0)) == ["bad"]
    refusals.add("bad", AdapterRejectedError("no"), 0.0)
    assert refusals.find("bad", "b", 1.0) is not None


def test_refusals_are_bounded():
    refusals = Refusals(hold_s=30.0)
    for number in range(3000):
        refusals.add(str(number), AdapterRejectedError("no"), 0.0)
    assert len(refusals.current(0.0)) == 1024
    assert refusals.find("2999", "t", 1.0) is not None
