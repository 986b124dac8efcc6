"""Classification and embeddings take the road of generations: identity, quotas, lease, usage."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterNotFoundError,
    CancelledRequestError,
    DeadlineExceededError,
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    UnauthenticatedError,
    WorkerLostError,
)
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.generation_pb2 import PriorityClass
from tests.support.standin_encoder import MAX_CONTEXT_TOKENS, vector_of

pytestmark = pytest.mark.integration


async def test_texts_are_classified_under_a_ticket_of_the_encoder(bench):
    digest = await bench.start_with_encoder()
    client = await bench.client()
    response = await client.classify(
        ["What is left?", "Send it."], adapter="intents", top_labels=2, priority="background"
    )
    for found in response.classifications:
        assert [each.label for each in found.labels] == ["balance", "transfer"]
    assert response.adapter.digest == digest
    assert response.usage.num_tokens == 3 + 2 + 2 + 2
    call = await bench.encoder.calls.get()
    assert call.ticket.task == Task.TASK_ENCODE
    assert call.ticket.request_id == response.request_id
    assert call.ticket.priority == PriorityClass.PRIORITY_CLASS_BACKGROUND
    assert [adapter.digest for adapter in call.ticket.adapters] == [digest]
    await bench.wait_until_idle()  # the lease is back

    embedded = await client.embed("What is left?")
    assert list(embedded.embeddings[0].values) == pytest.approx(vector_of("What is left?"))
    assert (embedded.model, embedded.HasField("adapter")) == ("stand-in-encoder", False)
    usage = (await client.status()).usage
    assert (usage.num_requests, usage.num_prompt_tokens, usage.num_output_tokens) == (2, 14, 0)
    assert usage.engine_time.ToMilliseconds() == 10
    status = await client.status()
    assert (status.encoder, status.model) == ("stand-in-encoder", "stand-in")
    assert {each.name: each.is_ready for each in status.services}["encoder"]


async def test_what_is_wrong_is_named_and_no_worker_hears_of_it(bench):
    await bench.start_with_encoder()
    client = await bench.client()
    refused = [
        (InvalidRequestError, "texts must hold 1 to 64", client.classify([], adapter="intents")),
        (InvalidRequestError, "texts must hold 1 to 64", client.embed(["x"] * 65)),
        (InvalidRequestError, r"texts\[1\] must have 1 to", client.embed(["x", ""])),
        (InvalidRequestError, "only generations are routed", client.embed("x", adapter="auto")),
        (InvalidRequestError, "adapter.strength", client.embed("x", adapter="intents", strength=3)),
        (
            AdapterNotFoundError,
            r"no such adapter \(adapter.adapter\)",
            client.embed("x", adapter="no"),
        ),
    ]
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            await call
    assert bench.encoder.calls.empty()
    bench.store.digests["acme", "email"] = "sha256:" + "d" * 64
    with pytest.raises(AdapterIncompatibleError):
        await client.classify("x", adapter="email")
    with pytest.raises(AdapterIncompatibleError):
        async for _ in client.generate("Hi", adapters="intents"):
            pass


async def test_the_quotas_hold_and_what_was_not_used_is_given_back(bench):
    await bench.start_with_encoder()
    poor = await bench.client("poor", max_tokens_per_minute=MAX_CONTEXT_TOKENS)
    # Each text may cost its bytes and two, whatever it really costs.
    await poor.embed("ten bytes!")
    await poor.embed("ten bytes!")
    with pytest.raises(QuotaExceededError) as caught:
        await poor.embed(["ten bytes!", "ten bytes!"])
    assert caught.value.metadata["max_tokens_per_minute"] == str(MAX_CONTEXT_TOKENS)

    single = await bench.client("single", max_concurrent_requests=1)
    bench.encoder.go_on = asyncio.Event()
    running = asyncio.create_task(single.embed("one"))
    while not bench.encoder.num_open:
        await bench.encoder.calls.get()
    with pytest.raises(QuotaExceededError) as caught:
        await single.embed("two")
    assert "max_concurrent_requests" in caught.value.metadata
    bench.encoder.go_on.set()
    await running


async def test_who_leaves_ends_the_call_of_the_worker_and_pays_what_is_likely(bench):
    await bench.start_with_encoder()
    client = await bench.client()
    bench.encoder.go_on = asyncio.Event()
    running = asyncio.create_task(client.embed("eight...eight..."))
    call = await bench.encoder.calls.get()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await call.ended.wait()
    await bench.wait_until_idle()
    usage = (await client.status()).usage
    assert (usage.num_requests, usage.num_prompt_tokens, usage.num_running) == (1, 16 // 4 + 2, 0)
    with pytest.raises(DeadlineExceededError):
        await client.embed("never", timeout_s=0.3)
    await bench.wait_until_idle()


async def test_who_made_the_worker_compute_until_the_deadline_pays_what_is_likely(bench):
    await bench.start_with_encoder()
    client = await bench.client()
    # Its deadline is the gateway's: either may notice first.
    bench.encoder.failure = DeadlineExceededError("the deadline passed")
    with pytest.raises(DeadlineExceededError):
        await client.embed("eight...eight...")
    await bench.wait_until_idle()
    assert (await client.status()).usage.num_prompt_tokens == 16 // 4 + 2


async def test_a_worker_that_refuses_or_goes_costs_nothing(bench):
    await bench.start_with_encoder()
    client = await bench.client()
    for failure, error in (
        (InvalidRequestError("texts[0] is odd", field="texts[0]"), InvalidRequestError),
        (CancelledRequestError("the worker is stopping"), WorkerLostError),
    ):
        bench.encoder.failure = failure
        with pytest.raises(error):
            await client.embed("x")
    await bench.wait_until_idle()
    assert (await client.status()).usage.num_prompt_tokens == 0


async def test_a_revoked_tenant_gets_no_answer(bench):
    await bench.start_with_encoder()
    client = await bench.client()
    bench.encoder.go_on = asyncio.Event()
    running = asyncio.create_task(client.embed("secret"))
    await bench.encoder.calls.get()
    await (await bench.admin()).revoke_tenant("acme")
    bench.encoder.go_on.set()
    with pytest.raises(UnauthenticatedError):
        await running
    await bench.wait_until_idle()


async def test_a_node_with_an_encoder_alone_is_ready_and_generates_nothing(bench):
    await bench.start_with_encoder(has_decoder=False)
    client = await bench.client()
    await client.embed("x")
    with pytest.raises(NotFoundError, match="generates no text"):
        async for _ in client.generate("Hi"):
            pass
    assert (await client.status()).model == ""
    assert await client.forget_session() == 0


async def test_a_node_without_an_encoder_says_how_to_get_one(gateway):
    client = await gateway.client()
    with pytest.raises(NotFoundError, match="edgelora up --encoder"):
        await client.classify("x", adapter="intents")
