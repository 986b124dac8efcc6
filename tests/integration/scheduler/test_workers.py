"""Workers that come, go, die and hang, seen from a real scheduler process."""

from __future__ import annotations

import pytest

from edgelora.errors import ServiceUnavailableError
from edgelora.v1.adapter_pb2 import AdapterSelection
from services.chassis.channel import translate_errors

pytestmark = pytest.mark.integration


def ready(queues) -> list[str]:
    return [worker.name for worker in queues.workers if worker.is_ready]


async def test_a_killed_worker_gets_nothing_until_it_is_back_F04(bench):
    await bench.start_worker("w1")
    worker = bench.start_worker_process("w0")
    await bench.start(workers=("w0", "w1"))
    await bench.wait_for(lambda queues: ready(queues) == ["w0", "w1"])
    worker.kill()
    await bench.wait_for(lambda queues: ready(queues) == ["w1"])
    granted = [await bench.acquire(), await bench.acquire()]
    assert {grant.worker_address for grant in granted} == {bench.address("w1")}
    bench.start_worker_process("w0")
    await bench.wait_for(lambda queues: ready(queues) == ["w0", "w1"])
    assert (await bench.acquire()).worker_address == bench.address("w0")


async def test_a_hanging_worker_gets_nothing_until_it_goes_on_F07(bench):
    worker = bench.start_worker_process("w0")
    await bench.start(NO_WORKER_LIMIT="60s")
    await bench.wait_for(lambda queues: ready(queues) == ["w0"])
    worker.pause()
    await bench.wait_for(lambda queues: ready(queues) == [])
    call, _ = await bench.queue()
    worker.resume()
    assert (await call.read()).granted.worker_address == bench.address("w0")


async def test_a_worker_that_says_not_serving_gets_nothing(bench):
    host = await bench.start_worker("w0")
    await bench.start(NO_WORKER_LIMIT="60s")
    await bench.wait_for(lambda queues: ready(queues) == ["w0"])
    await host.set_ready(False)
    await bench.wait_for(lambda queues: ready(queues) == [])
    call, _ = await bench.queue()
    assert sum(queue.num_running for queue in (await bench.queues()).queues) == 0
    await host.set_ready(True)
    assert (await call.read()).granted.worker_address == bench.address("w0")


async def test_without_any_worker_requests_are_refused(bench):
    await bench.start(NO_WORKER_LIMIT="300ms")
    with (
        pytest.raises(ServiceUnavailableError, match="no worker that does this is ready") as caught,
        translate_errors(),
    ):
        await bench.acquire()
    assert caught.value.retry_after_s == pytest.approx(0.3)


async def test_adapters_draw_requests_to_the_worker_that_holds_them(bench):
    await bench.start_store()
    digest = await bench.register("acme", "mail")
    await bench.store.report("w1", digest)
    await bench.start_worker("w0")
    await bench.start_worker("w1")
    await bench.start(workers=("w0", "w1"))
    await bench.wait_for(lambda queues: ready(queues) == ["w0", "w1"])
    with_adapter = await bench.acquire(adapters=[AdapterSelection(adapter="mail")])
    base = await bench.acquire()
    assert with_adapter.worker_address == bench.address("w1")
    assert base.worker_address == bench.address("w0")


async def test_places_are_never_exceeded(bench):
    await bench.start_worker("w0")
    await bench.start_worker("w1")
    await bench.start(workers=("w0", "w1"), MAX_RUNNING_PER_WORKER="2")
    await bench.wait_for(lambda queues: ready(queues) == ["w0", "w1"])
    for _ in range(4):
        await bench.acquire()
    waiting, queued = await bench.queue()
    assert queued.position == 0
    queues = await bench.queues()
    assert [worker.num_running for worker in queues.workers] == [2, 2]
    assert queues.queues[0].num_waiting == 1
    waiting.cancel()
