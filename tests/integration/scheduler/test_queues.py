"""Waiting in a real scheduler process: order, limits, and clients that go away."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.errors import CancelledRequestError, QueueFullError, ServiceUnavailableError
from edgelora.v1 import scheduler_service_pb2 as pb
from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.channel import translate_errors

pytestmark = pytest.mark.integration


def num_waiting(queues) -> int:
    return sum(queue.num_waiting for queue in queues.queues)


def num_running(queues) -> int:
    return sum(worker.num_running for worker in queues.workers)


async def test_interactive_goes_before_batch(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    first = await bench.acquire()
    batch, _ = await bench.queue(priority=PriorityClass.PRIORITY_CLASS_BATCH)
    interactive, queued = await bench.queue(priority=PriorityClass.PRIORITY_CLASS_INTERACTIVE)
    assert queued.position == 0
    await bench.release(first)
    granted = (await interactive.read()).granted
    queues = await bench.queues()
    assert [queue.num_waiting for queue in queues.queues] == [0, 0, 1]
    assert [queue.num_running for queue in queues.queues] == [1, 0, 0]
    await bench.release(granted)
    assert (await batch.read()).granted.ticket_id


async def test_the_position_counts_who_goes_before_in_fair_order(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    await bench.acquire("flooder")
    calls = [await bench.queue("flooder") for _ in range(4)]
    assert [queued.position for _, queued in calls] == [0, 1, 2, 3]
    _, queued = await bench.queue("light")
    assert queued.position == 1
    del calls


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back(bench):
    await bench.start_worker("w0")
    await bench.start(
        MAX_RUNNING_PER_WORKER="1",
        MAX_WAITING_INTERACTIVE="3",
        MAX_WAITING_PER_TENANT="2",
        RETRY_AFTER="1500ms",
    )
    await bench.acquire("a")
    calls = [await bench.queue("a"), await bench.queue("a")]
    with pytest.raises(QueueFullError, match="of yours") as caught, translate_errors():
        await bench.queue("a")
    assert caught.value.retry_after_s == 1.5
    calls.append(await bench.queue("b"))
    with pytest.raises(QueueFullError, match="on this node"), translate_errors():
        await bench.queue("c")
    assert num_waiting(await bench.queues()) == len(calls) == 3


async def test_cancel_reaches_the_waiting_call_of_its_tenant(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    await bench.acquire()
    call, _ = await bench.queue("acme", request_id="r1")
    for tenant_id, was_waiting in (("mallory", False), ("acme", True), ("acme", False)):
        response = await bench.stub.Cancel(
            pb.CancelRequest(claim=bench.claim(tenant_id), request_id="r1")
        )
        assert response.was_waiting == was_waiting
    with pytest.raises(CancelledRequestError), translate_errors():
        await call.read()
    assert num_waiting(await bench.queues()) == 0


async def test_clients_that_leave_cost_nothing_S12(bench):
    """Cancelled at once, while waiting, and about when the grant comes: 100 times each way."""
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1", MAX_WAITING_PER_TENANT="256", LEASE="2s")
    holder = await bench.acquire("holder")
    for _ in range(100):
        bench.stub.Acquire(bench.request()).cancel()
    calls = [await bench.queue() for _ in range(100)]
    for call, _ in calls:
        call.cancel()
    await bench.wait_for(lambda queues: num_waiting(queues) == 0)
    await bench.release(holder, "holder")
    for _ in range(100):
        call, _ = await bench.queue()
        call.cancel()
    await bench.wait_for(lambda queues: num_waiting(queues) == 0 and num_running(queues) == 0)
    assert (await bench.acquire()).ticket_id


async def test_a_killed_gateway_leaves_no_queue_entry_and_its_place_comes_free_F01(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1", LEASE="2s")
    gateway = await bench.start_waiting_client(num_requests=6)
    queues = await bench.queues()
    assert (num_waiting(queues), num_running(queues)) == (5, 1)
    gateway.kill()
    await gateway.wait()
    await bench.wait_for(lambda queues: num_waiting(queues) == 0 and num_running(queues) == 0)
    # Entries left behind would have been granted one after the other, each to expire.
    assert len(bench.process.log("lease_expired")) == 1


async def test_a_stopping_scheduler_ends_unstarted_requests_F02(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    await bench.acquire()
    call, _ = await bench.queue()
    stopping = asyncio.to_thread(bench.process.stop)
    with pytest.raises(ServiceUnavailableError, match="stopping") as caught, translate_errors():
        await asyncio.gather(call.read(), stopping)
    assert caught.value.retry_after_s == 1.0
    assert bench.process.process.wait(20) == 0


async def test_a_killed_scheduler_ends_waiting_calls_and_starts_afresh_F02(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    await bench.acquire()
    call, _ = await bench.queue()
    bench.process.kill()
    with pytest.raises(ServiceUnavailableError), translate_errors():
        await call.read()
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    assert (await bench.acquire()).ticket_id
