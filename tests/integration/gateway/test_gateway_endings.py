"""Every accepted request ends exactly once, whoever leaves first, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing

import grpc
import psutil
import pytest

from edgelora import EdgeLoraClient
from edgelora.errors import (
    DeadlineExceededError,
    QueueFullError,
    ServiceUnavailableError,
    WorkerLostError,
)
from edgelora.generation import Accepted, Delta, Done, GenerationOptions, Usage
from edgelora.v1 import gateway_service_pb2 as pb

pytestmark = pytest.mark.integration

MANY = {"max_concurrent_requests": 1000, "max_tokens_per_minute": 10**9}


async def first_delta(events) -> Delta:
    async for event in events:
        if isinstance(event, Delta):
            return event
    pytest.fail("the stream ended without a delta")


async def assert_all_settled(gateway, tenant_id: str = "acme") -> None:
    """Nothing runs anywhere, and the gateway has counted an end for every start."""
    await gateway.wait_until_idle()
    status = await (await gateway.client(tenant_id)).status()
    assert status.usage.num_running == 0


async def test_leaving_mid_stream_cancels_the_worker_F22_S10(gateway):
    gateway.worker.hold_after = 2
    client = await gateway.client()
    async with aclosing(client.generate("Hi")) as events:
        await first_delta(events)
    call = gateway.worker.calls.get_nowait()
    async with asyncio.timeout(1):
        await call.ended.wait()
    assert not call.was_finished
    await assert_all_settled(gateway)


async def test_leaving_while_the_worker_is_talking_cancels_it_F22(gateway):
    gateway.worker.script = None
    client = await gateway.client()
    async with aclosing(client.generate("Hi")) as events:
        await first_delta(events)
    call = gateway.worker.calls.get_nowait()
    async with asyncio.timeout(1):
        await call.ended.wait()
    await assert_all_settled(gateway)


async def test_clients_that_leave_are_no_errors_in_the_log(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    process = await bench.start_gateway_process(CLIENT_STALL="200ms")
    bench.worker.script = None
    await bench.client()
    stub = await bench.stub(bdp_probe=0, **{"http2.lookahead_bytes": 65535})
    for num_read in (1, 100):
        call = stub.Generate(pb.GenerateRequest(prompt="Hi"), metadata=bench.authorization())
        for _ in range(num_read):
            await call.read()
        # The gateway is in the middle of a write to a client that reads no more, and then leaves.
        await (await bench.worker.calls.get()).ended.wait()
        call.cancel()
        await bench.wait_until_idle()
    process.stop()
    lines = [
        line for line in process.log("rpc_finished") if line["rpc"].endswith("Service/Generate")
    ]
    assert [line["code"] for line in lines] == ["CANCELLED"] * 2
    assert all("tenant_id" in line and "request_id" in line for line in lines)
    assert process.errors() == ""


async def test_leaving_before_the_first_token_cancels_the_prefill_F22(gateway):
    gateway.worker.hold_after = 0
    client = await gateway.client()
    async with aclosing(client.generate("Hi")) as events:
        assert isinstance(await anext(events), Accepted)
        call = await gateway.worker.calls.get()
    async with asyncio.timeout(1):
        await call.ended.wait()
    assert not call.was_finished
    await assert_all_settled(gateway)


async def test_leaving_the_queue_takes_the_request_out_of_it_F22(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler(MAX_RUNNING_PER_WORKER="1")
    await bench.start_gateway()
    bench.worker.hold_after = 1
    client = await bench.client()
    async with aclosing(client.generate("runs")) as running:
        await first_delta(running)
        async with aclosing(client.generate("waits")) as waiting:
            accepted = await anext(waiting)
            assert isinstance(accepted, Accepted)
            await bench.wait_for_queues(lambda q: q.queues[0].num_waiting == 1)
        await bench.wait_for_queues(lambda q: q.queues[0].num_waiting == 0)
        assert bench.worker.calls.qsize() == 1
        assert (await client.status()).usage.num_running == 1
    await assert_all_settled(bench)


async def test_200_cancels_before_the_first_message_leave_no_place_taken_S12_S11(gateway):
    gateway.worker.hold_after = 0
    await gateway.client("acme", **MANY)
    stub = await gateway.stub()
    for round_number in range(200):
        call = stub.Generate(
            pb.GenerateRequest(prompt="Hi"), metadata=gateway.authorization(), timeout=30
        )
        # At every stage there is before a first token: not sent yet, sent, queued, prefilling.
        for _ in range(round_number % 20):
            await asyncio.sleep(0)
        if round_number % 4 == 3:
            assert (await call.read()).event.HasField("accepted")
        call.cancel()
    await assert_all_settled(gateway)
    gateway.worker.hold_after = None
    events = [event async for event in (await gateway.client()).generate("Hi")]
    assert isinstance(events[-1], Done)


async def test_a_dropped_stream_object_cancels_at_the_server_G03(gateway):
    gateway.worker.hold_after = 1
    client = await gateway.client()
    events = client.generate("Hi")
    await first_delta(events)
    del events
    gc.collect()
    call = gateway.worker.calls.get_nowait()
    async with asyncio.timeout(1):
        await call.ended.wait()
    assert not call.was_finished
    await assert_all_settled(gateway)


async def test_100_opened_and_closed_channels_leave_no_connection_G07(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    process = await bench.start_gateway_process()
    bench.worker.hold_after = 1
    await bench.client("acme", **MANY)
    server = psutil.Process(process.process.pid)

    def num_descriptors() -> int:
        return server.num_fds()

    await (await bench.client()).status()
    baseline = num_descriptors()
    for _ in range(100):
        client = EdgeLoraClient(bench.address("gateway"), bench.keys["acme"])
        reader = asyncio.create_task(first_delta(client.generate("Hi")))
        while (await bench.worker.calls.get()).ended.is_set():
            pass
        reader.cancel()
        await client.close()
        await asyncio.gather(reader, return_exceptions=True)
    await bench.wait_until_idle()
    async with asyncio.timeout(5):
        while num_descriptors() > baseline:  # noqa: ASYNC110 - nothing tells of a closed socket
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("hold_after", [0, 2])
async def test_a_killed_worker_ends_its_stream_within_a_second_F04(bench, hold_after):
    await bench.start_store()
    worker = bench.start_worker_process(hold_after)
    bench.start_scheduler()
    await bench.start_gateway()
    client = await bench.client()
    events = client.generate("Hi")
    seen = [await anext(events)]
    while sum(isinstance(event, Delta) for event in seen) < hold_after:
        seen.append(await anext(events))
    await bench.wait_for_queues(lambda q: q.queues[0].num_running == 1)

    worker.kill()
    with pytest.raises(WorkerLostError) as caught:
        async with asyncio.timeout(1):
            async for event in events:
                seen.append(event)
    assert caught.value.code == "UNAVAILABLE"
    assert caught.value.retry_after_s == 1.0
    assert not any(isinstance(event, Usage | Done) for event in seen)

    # The next request works as soon as there is a worker again.
    await bench.start_worker()
    await bench.wait_for_queues(lambda q: q.workers[0].is_ready)
    events = [event async for event in client.generate("Hi")]
    assert isinstance(events[-1], Done)
    await assert_all_settled(bench)


async def test_a_deadline_ends_each_stage_with_deadline_exceeded_F25(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler(MAX_RUNNING_PER_WORKER="1")
    await bench.start_gateway(DEFAULT_DEADLINE="300ms")
    await bench.client("acme", **MANY)
    stub = await bench.stub()

    async def end_of(call) -> list[str]:
        kinds = []
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for response in call:
                kinds.append(response.event.WhichOneof("event"))
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        return kinds

    # No deadline of the client's own: the gateway's default holds at every stage.
    for hold_after, expected in ((0, ["accepted"]), (2, ["accepted", "delta", "delta"])):
        bench.worker.hold_after = hold_after
        call = stub.Generate(pb.GenerateRequest(prompt="Hi"), metadata=bench.authorization())
        assert await end_of(call) == expected
        worker_call = bench.worker.calls.get_nowait()
        await worker_call.ended.wait()
        await bench.wait_until_idle()
    # In the queue, behind a request whose client allows more.
    client = await bench.client()
    async with aclosing(client.generate("runs")) as running:
        await first_delta(running)
        call = stub.Generate(pb.GenerateRequest(prompt="waits"), metadata=bench.authorization())
        assert await end_of(call) == ["accepted"]
        bench.worker.calls.get_nowait()
        assert bench.worker.calls.empty()
    await assert_all_settled(bench)
    # The client's own deadline, shorter or passed already.
    for timeout_s in (0.001, 0.05, -1.0):
        with pytest.raises(DeadlineExceededError):
            async for _ in client.generate("Hi", timeout_s=timeout_s):
                pass
    await assert_all_settled(bench)


async def test_the_remaining_time_is_passed_on_and_never_renewed_F25(gateway):
    gateway.worker.hold_after = 0
    client = await gateway.client()
    events = client.generate("Hi", timeout_s=20)
    await anext(events)
    call = await gateway.worker.calls.get()
    assert 0 < call.time_remaining_s < 21  # gRPC rounds up on the wire
    await events.aclose()


async def test_a_full_queue_says_when_to_come_back(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler(MAX_RUNNING_PER_WORKER="1", MAX_WAITING_INTERACTIVE="1")
    await bench.start_gateway()
    bench.worker.hold_after = 1
    client = await bench.client()
    async with aclosing(client.generate("runs")) as running:
        await first_delta(running)
        async with aclosing(client.generate("waits")) as waiting:
            await anext(waiting)
            with pytest.raises(QueueFullError) as caught:
                await anext(client.generate("too many"))
            assert caught.value.retry_after_s == 1.0
    await assert_all_settled(bench)


async def test_a_lost_scheduler_ends_waiting_requests_and_spares_running_ones_F02(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler(MAX_RUNNING_PER_WORKER="1", LEASE="1s")
    await bench.start_gateway()
    bench.worker.hold_after = 1
    client = await bench.client()
    running, waiting = client.generate("runs"), client.generate("waits")
    await first_delta(running)
    await anext(waiting)

    bench.scheduler.kill()
    with pytest.raises(ServiceUnavailableError) as caught:
        await anext(waiting)
    assert caught.value.metadata["service"] == "scheduler"
    assert caught.value.retry_after_s == 1.0
    bench.worker.go_on.set()
    rest = [event async for event in running]
    assert isinstance(rest[-1], Done)
    assert (await client.status()).usage.num_running == 0


async def test_a_lease_is_renewed_for_as_long_as_the_stream_runs(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler(LEASE="600ms")
    await bench.start_gateway()
    bench.worker.hold_after = 1
    client = await bench.client()
    async with aclosing(client.generate("Hi")) as events:
        await first_delta(events)
        renewals = asyncio.create_task(renewed(bench, times=5))
        await renewals
        assert not bench.scheduler.log("lease_expired")
    await assert_all_settled(bench)


async def renewed(bench, times: int) -> None:
    """Returns when the scheduler has renewed a lease so many times."""
    while True:
        lines = bench.scheduler.log("rpc_finished")
        if sum(line["rpc"].endswith("/Renew") for line in lines) >= times:
            return
        await asyncio.sleep(0.01)


async def test_a_client_that_does_not_read_loses_its_stream_and_nobody_else_F23(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    await bench.start_gateway(CLIENT_STALL="500ms")
    bench.worker.script = None
    client = await bench.client()
    # Windows as small as HTTP/2 starts with, so that the client's own buffers stay out of it.
    stub = await bench.stub(bdp_probe=0, **{"http2.lookahead_bytes": 65535})
    stalled = stub.Generate(
        pb.GenerateRequest(prompt="Hi"), metadata=bench.authorization(), timeout=60
    )
    assert (await stalled.read()).event.HasField("accepted")
    call = await bench.worker.calls.get()
    async with asyncio.timeout(10):
        await call.ended.wait()
    assert not call.was_finished
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while await stalled.read() is not grpc.aio.EOF:
            pass
    # Back again, it learns what happened; the end is no good one.
    assert caught.value.code() is grpc.StatusCode.CANCELLED
    assert "read nothing" in caught.value.details()
    bench.worker.script = ["fine"]
    events = [event async for event in client.generate("Hi")]
    assert isinstance(events[-1], Done)
    await assert_all_settled(bench)


async def test_a_slow_reader_gets_everything(gateway):
    words = [f"{index} " for index in range(500)]
    gateway.worker.script = words
    client = await gateway.client()
    text = ""
    async for event in client.generate("Hi", options=GenerationOptions(max_tokens=500)):
        if isinstance(event, Delta):
            text += event.text
            await asyncio.sleep(0)
    assert text == "".join(words)
