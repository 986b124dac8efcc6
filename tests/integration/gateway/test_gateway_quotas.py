"""Quotas hold under concurrency and across a crash of the gateway."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.errors import QuotaExceededError
from edgelora.generation import Delta, Done, GenerationOptions
from edgelora.v1 import gateway_service_pb2 as pb

pytestmark = pytest.mark.integration

ONE_TOKEN = GenerationOptions(max_tokens=1)


async def test_of_100_requests_at_once_exactly_the_cap_is_admitted_T40(gateway):
    gateway.worker.hold_after = 1
    client = await gateway.client("acme", max_concurrent_requests=5, max_tokens_per_minute=10**9)
    other = await gateway.client("other")

    async def start():
        events = client.generate("Hi", options=ONE_TOKEN)
        try:
            await anext(events)
        except QuotaExceededError as error:
            return error
        return events

    outcomes = await asyncio.gather(*(start() for _ in range(100)))
    refusals = [outcome for outcome in outcomes if isinstance(outcome, QuotaExceededError)]
    streams = [outcome for outcome in outcomes if not isinstance(outcome, QuotaExceededError)]
    assert (len(streams), len(refusals)) == (5, 95)
    assert all(refusal.code == "RESOURCE_EXHAUSTED" for refusal in refusals)
    assert all(refusal.retry_after_s == 1.0 for refusal in refusals)
    # Another tenant's room is its own.
    assert isinstance(await anext(other.generate("Hi")), object)

    gateway.worker.go_on.set()
    for events in streams:
        rest = [event async for event in events]
        assert isinstance(rest[-1], Done)
    await gateway.wait_until_idle()
    assert (await client.status()).usage.num_running == 0
    assert (await client.status()).usage.num_requests == 5


async def test_tokens_are_reserved_at_once_so_that_parallel_requests_can_not_overdraw_T40(gateway):
    gateway.worker.hold_after = 1
    # Room for the reservations of three such requests: the prompt's bound and 100 output tokens.
    reserved = 2 + 64 + 8 + 100
    client = await gateway.client(
        "acme", max_concurrent_requests=100, max_tokens_per_minute=3 * reserved
    )
    options = GenerationOptions(max_tokens=100)

    async def start():
        events = client.generate("Hi", options=options)
        try:
            await anext(events)
        except QuotaExceededError as error:
            return error
        return events

    outcomes = await asyncio.gather(*(start() for _ in range(50)))
    refusals = [outcome for outcome in outcomes if isinstance(outcome, QuotaExceededError)]
    assert len(refusals) == 47
    assert all(0 < refusal.retry_after_s <= 60 for refusal in refusals)
    gateway.worker.go_on.set()
    for events in outcomes:
        if not isinstance(events, QuotaExceededError):
            await asyncio.wait_for(anext(events), 10)
            async for _ in events:
                pass
    # What was not used is back: each used 10 of its reservation.
    await gateway.wait_until_idle()
    assert isinstance([event async for event in client.generate("Hi", options=options)][-1], Done)


async def test_a_request_larger_than_the_whole_quota_is_told_so(gateway):
    client = await gateway.client("acme", max_tokens_per_minute=100)
    with pytest.raises(QuotaExceededError, match="lower max_tokens") as caught:
        await anext(client.generate("Hi", options=GenerationOptions(max_tokens=500)))
    assert caught.value.retry_after_s is None
    assert caught.value.metadata["max_tokens_per_minute"] == "100"


async def test_killing_the_gateway_refills_no_quota_and_stops_its_streams_F01_T40(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler(LEASE="1s")
    process = await bench.start_gateway_process()
    bench.worker.hold_after = 1
    client = await bench.client("acme", max_tokens_per_minute=200)
    events = client.generate("Hi", options=GenerationOptions(max_tokens=100))
    async for event in events:
        if isinstance(event, Delta):
            break
    call = bench.worker.calls.get_nowait()

    process.kill()
    with pytest.raises(Exception) as caught:
        async for _ in events:
            pass
    assert caught.value.code == "UNAVAILABLE"
    async with asyncio.timeout(2):
        await call.ended.wait()  # the worker noticed
    await bench.start_gateway_process()
    with pytest.raises(QuotaExceededError) as refused:
        await anext(client.generate("Hi", options=GenerationOptions(max_tokens=100)))
    assert refused.value.retry_after_s > 0
    await bench.wait_until_idle()  # the lease of the dead gateway ran out


async def test_uploads_count_as_running_requests(gateway):
    await gateway.client("acme", max_concurrent_requests=1)
    stub = await gateway.stub()
    upload = stub.RegisterAdapter(metadata=gateway.authorization(), timeout=30)
    files = [
        pb.AdapterUploadFile(name="adapter_config.json", size_bytes=1),
        pb.AdapterUploadFile(name="adapter_model.safetensors", size_bytes=1),
    ]
    await upload.write(pb.RegisterAdapterRequest(header=pb.AdapterUploadHeader(files=files)))
    client = await gateway.client()
    while (await client.status()).usage.num_running == 0:
        pass
    with pytest.raises(QuotaExceededError):
        await anext(client.generate("Hi"))
    upload.cancel()
    while (await client.status()).usage.num_running == 1:
        pass
    assert isinstance([event async for event in client.generate("Hi")][-1], Done)
