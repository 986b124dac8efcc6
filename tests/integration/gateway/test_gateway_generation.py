"""The life of a request through a real gateway and a real scheduler."""

from __future__ import annotations

import pytest

from edgelora.errors import (
    AdapterNotFoundError,
    PromptTooLongError,
    ServiceUnavailableError,
    WorkerLostError,
)
from edgelora.generation import Accepted, Delta, Done, GenerationOptions, Usage

pytestmark = pytest.mark.integration

DIGEST = "sha256:" + "a" * 64


async def test_events_come_in_order_and_joined_deltas_are_the_text(gateway):
    gateway.store.digests["acme", "mail"] = DIGEST
    client = await gateway.client()
    events = [event async for event in client.generate("Dear Ann,", adapters={"mail": 0.5})]

    accepted, *deltas, usage, done = events
    assert isinstance(accepted, Accepted)
    assert accepted.queue_position == 0
    assert [(a.digest, a.alias, a.strength) for a in accepted.adapters] == [(DIGEST, "mail", 0.5)]
    assert all(isinstance(delta, Delta) for delta in deltas)
    assert "".join(delta.text for delta in deltas) == "Hello there."
    assert isinstance(usage, Usage)
    assert (usage.num_prompt_tokens, usage.num_output_tokens) == (7, 3)
    assert 0 <= usage.queue_s <= usage.time_to_first_token_s <= usage.total_s
    assert done == Done(finish_reason="stop", stop_string=None)
    await gateway.wait_until_idle()


async def test_the_worker_gets_ticket_input_and_options_as_asked(gateway):
    gateway.store.digests["acme", "mail"] = DIGEST
    client = await gateway.client()
    options = GenerationOptions(max_tokens=9, temperature=0.7, seed=3, stop_strings=["\n"])
    messages = [("system", "Be brief."), ("user", "Hi")]
    events = [event async for event in client.chat(messages, adapters="mail", options=options)]

    call = gateway.worker.calls.get_nowait()
    assert (call.ticket.tenant_id, call.ticket.worker) == ("acme", "w0")
    assert call.ticket.request_id == events[0].request_id
    assert call.ticket.max_output_tokens == 9
    assert [adapter.digest for adapter in call.ticket.adapters] == [DIGEST]
    sent = call.request.input.conversation.messages
    assert [(message.role, message.content) for message in sent] == messages
    assert call.request.options.sampling.temperature == 0.7
    assert call.request.options.sampling.seed == 3
    assert list(call.request.options.stop.stop_strings) == ["\n"]


async def test_usage_is_counted_and_shown_to_its_tenant_alone(gateway):
    acme, other = await gateway.client("acme"), await gateway.client("other")
    async for _ in acme.generate("Hi"):
        pass
    await gateway.wait_until_idle()
    usage = (await acme.status()).usage
    assert (usage.num_requests, usage.num_prompt_tokens, usage.num_output_tokens) == (1, 7, 3)
    assert usage.num_running == 0
    assert (await other.status()).usage.num_requests == 0


async def test_an_unknown_adapter_is_not_found_before_anything_is_accepted(gateway):
    client = await gateway.client()
    with pytest.raises(AdapterNotFoundError) as caught:
        async for event in client.generate("Hi", adapters="nope"):
            pytest.fail(f"an event: {event}")
    assert caught.value.field == "adapters[0].adapter"
    assert gateway.worker.calls.empty()


async def test_what_the_worker_refuses_keeps_its_class_and_field(gateway):
    gateway.worker.failure = PromptTooLongError(
        "the prompt has 3000 tokens, the context holds 2048", field="prompt"
    )
    client = await gateway.client()
    with pytest.raises(PromptTooLongError, match=r"3000.*2048") as caught:
        async for _ in client.generate("Hi"):
            pass
    assert caught.value.field == "prompt"
    await gateway.wait_until_idle()


async def test_an_adapter_whose_remote_is_away_is_no_lost_worker(gateway):
    gateway.worker.failure = ServiceUnavailableError(
        "the remote can not be reached", metadata={"remote": "offline"}, retry_after_s=5.0
    )
    client = await gateway.client()
    with pytest.raises(ServiceUnavailableError, match="the remote can not be reached") as caught:
        async for _ in client.generate("Hi"):
            pass
    assert (caught.value.metadata["remote"], caught.value.retry_after_s) == ("offline", 5.0)
    await gateway.wait_until_idle()


async def test_a_stream_that_stops_short_never_looks_finished(gateway):
    gateway.worker.ends_without_finished = True
    client = await gateway.client()
    events = []
    with pytest.raises(WorkerLostError):
        async for event in client.generate("Hi"):
            events.append(event)
    assert not any(isinstance(event, Usage | Done) for event in events)
    await gateway.wait_until_idle()
