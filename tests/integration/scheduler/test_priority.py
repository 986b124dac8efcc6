"""Classes, deadlines and overload in a real scheduler process."""

from __future__ import annotations

import asyncio

import pytest
from google.protobuf.duration_pb2 import Duration

from edgelora.errors import DeadlineExceededError, QueueFullError
from edgelora.v1 import scheduler_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.channel import translate_errors
from tests.support.standin_store import StandinStore, host_store

pytestmark = pytest.mark.integration

BATCH = PriorityClass.PRIORITY_CLASS_BATCH


def seconds(value: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(round(value * 1e9))
    return duration


async def test_an_interactive_request_runs_beside_a_batch_that_holds_every_place(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    await bench.acquire(priority=BATCH)
    await bench.queue(priority=BATCH)
    assert (await bench.acquire()).ticket_id
    queues = await bench.queues()
    assert [queue.num_running for queue in queues.queues] == [1, 0, 1]
    assert (queues.workers[0].num_running, queues.workers[0].max_running) == (2, 1)


async def test_a_request_leaves_the_queue_at_its_deadline(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    await bench.acquire()
    call, _ = await bench.queue(remaining=seconds(0.2))
    with pytest.raises(DeadlineExceededError, match="no place came free"), translate_errors():
        await call.read()
    assert all(queue.num_waiting == 0 for queue in (await bench.queues()).queues)


async def test_what_can_not_be_answered_in_time_is_refused_at_once(bench):
    """Four answers took 0.3 s to their only token: none is promised in less."""
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="4")
    leases = [await bench.acquire() for _ in range(4)]
    await asyncio.sleep(0.3)
    for granted in leases:
        await bench.stub.Release(
            pb.ReleaseRequest(
                ticket_id=granted.ticket_id,
                claim=bench.claim(),
                num_output_tokens=1,
                time_to_first_token=seconds(0.3),
            )
        )
    with pytest.raises(DeadlineExceededError, match="are allowed") as caught, translate_errors():
        await bench.acquire(remaining=seconds(0.25))
    assert float(caught.value.metadata["expected_s"]) == pytest.approx(0.3)
    assert (await bench.acquire(remaining=seconds(30))).ticket_id


async def test_an_overloaded_node_refuses_before_it_asks_the_store(bench):
    store = StandinStore(bench.sealer)
    store.digests["acme", "mail"] = "a" * 64
    await bench.serve(host_store(store, bench.address("store")))
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="1", MAX_WAITING_INTERACTIVE="2")
    mail = [AdapterSelection(adapter="mail")]
    await bench.acquire(adapters=mail)
    calls = [await bench.queue(adapters=mail) for _ in range(2)]
    num_calls = store.num_calls
    for _ in range(20):
        with pytest.raises(QueueFullError) as caught, translate_errors():
            await bench.queue("other", adapters=mail)
        assert 1.0 <= caught.value.retry_after_s <= 60.0
    assert store.num_calls == num_calls
    del calls


async def test_a_release_gets_past_more_waiting_requests_than_a_connection_usually_carries(bench):
    """A gateway has one connection: its streams must not all be taken by what waits."""
    await bench.start_worker("w0")
    await bench.start(
        MAX_RUNNING_PER_WORKER="1", MAX_WAITING_INTERACTIVE="600", MAX_WAITING_PER_TENANT="600"
    )
    holder = await bench.acquire()
    calls = [bench.stub.Acquire(bench.request(), timeout=60) for _ in range(600)]
    await asyncio.gather(*(call.read() for call in calls))
    await bench.release(holder)
    queues = await bench.wait_for(lambda queues: queues.queues[0].num_waiting == 599)
    assert queues.queues[0].num_running == 1
    for call in calls:
        call.cancel()
