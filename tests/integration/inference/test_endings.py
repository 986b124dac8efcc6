"""Every stream ends once, whoever goes away, and everything held is given back (I1, I5)."""

import asyncio
import gc
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from edgelora.errors import InternalError, from_rpc_error
from services.inference.readiness import ReadinessWatch
from tests.support.adapter_files import good_adapter
from tests.support.held_outside import HeldOutside
from tests.support.worker_bench import worker_bench

pytestmark = pytest.mark.integration


@pytest.fixture
async def bench():
    async with worker_bench() as made:
        yield made


class Gate:
    """Holds the engine before a forward that meets a condition, until opened."""

    def __init__(self, condition=lambda chunks: True):
        self._condition = condition
        self._reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, chunks):
        if self._condition(chunks):
            self._reached.set()
            assert self._open.wait(30)

    async def reached(self):
        assert await asyncio.to_thread(self._reached.wait, 30)

    def open(self):
        self._open.set()


async def test_cancelled_streams_stop_within_two_steps_S10(bench):
    gate = Gate(lambda chunks: chunks[0].start_position >= 20)
    bench.backend.before_forward = gate
    call = bench.call(max_tokens=100)
    while not (await call.read()).HasField("delta"):
        pass
    await gate.reached()
    call.cancel()
    while bench.engine.num_open_streams:
        await bench.status()
    forwards = bench.backend.num_forwards
    gate.open()
    status = await bench.rest()
    assert bench.backend.num_forwards - forwards <= 1
    assert status.num_running == 0


async def test_two_hundred_readers_of_one_token_leave_nothing_behind_S11_S12(bench):
    digests = [bench.shelf.add(good_adapter(seed)) for seed in (1, 2)]
    for number in range(200):
        adapters = ({}, {digests[0]: 1.0}, {digests[1]: 1.0})[number % 3]
        call = bench.call(adapters=adapters, max_tokens=60)
        while not (await call.read()).HasField("delta"):
            pass
        call.cancel()
    status = await bench.rest()
    assert status.num_free_kv_blocks == status.num_kv_blocks
    assert status.num_adapter_references == 0
    assert len((await bench.generate()).token_ids) == 8


async def test_two_hundred_who_leave_before_the_first_byte_leave_nothing_behind_S12(bench):
    for number in range(200):
        call = bench.call(max_tokens=60)
        if number % 2:
            await asyncio.sleep(0)
        call.cancel()
    await bench.rest()
    assert len((await bench.generate()).token_ids) == 8


async def test_calls_that_are_only_dropped_are_cancelled_G03(bench):
    async def read_one_and_forget():
        call = bench.call(max_tokens=10**6, prompt="a")
        try:
            await call.read()
        finally:
            call.cancel()

    for _ in range(5):
        await read_one_and_forget()
    gc.collect()
    await bench.rest()


async def test_many_cancelled_streams_leak_no_tasks_threads_or_files_G02(bench):
    async def round_of(count):
        for _ in range(count):
            call = bench.call(max_tokens=60)
            await call.read()
            call.cancel()
        await bench.rest()

    await round_of(50)
    before = HeldOutside.now()
    await round_of(200)
    await before.again()


async def error_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in call:
            pass
    return from_rpc_error(caught.value)


@pytest.mark.parametrize("error", [RuntimeError("user text"), MemoryError()])
async def test_an_exception_in_the_model_ends_the_stream_and_the_engine_lives_S09(bench, error):
    def fail(chunks):
        if any(chunk.start_position > 3 for chunk in chunks):
            raise error

    bench.backend.before_forward = fail
    failure = await error_of(bench.call(max_tokens=60))
    assert isinstance(failure, InternalError)
    assert "user text" not in failure.message
    bench.backend.before_forward = lambda chunks: None
    await bench.rest()
    assert len((await bench.generate()).token_ids) == 8


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt()])
async def test_the_death_of_the_engine_ends_every_stream_and_is_told_S09(bench, error):
    gate = Gate()
    bench.backend.before_forward = gate
    failures = [asyncio.create_task(error_of(bench.call(max_tokens=100))) for _ in range(3)]
    while bench.engine.num_open_streams < 3:
        await bench.status()

    def die(chunks):
        raise error

    bench.backend.before_forward = die
    gate.open()
    async with asyncio.timeout(5):
        assert await bench.worker.wait_for_end() is True
        assert all(isinstance(each, InternalError) for each in await asyncio.gather(*failures))
        assert isinstance(await error_of(bench.call()), InternalError)


async def test_health_follows_the_engine_S11():
    async with worker_bench(STALL_LIMIT="200ms") as bench:
        stub = health_pb2_grpc.HealthStub(bench.channel)
        request = health_pb2.HealthCheckRequest(service="edgelora.v1.InferenceService")
        watch = stub.Watch(request)
        statuses = health_pb2.HealthCheckResponse
        while (await watch.read()).status != statuses.SERVING:
            pass
        gate = Gate()
        bench.backend.before_forward = gate
        stuck = asyncio.create_task(bench.generate())
        assert (await watch.read()).status == statuses.NOT_SERVING
        gate.open()
        await stuck
        assert (await watch.read()).status == statuses.SERVING
        watch.cancel()


async def test_an_idle_engine_is_not_stalled(bench):
    told = []

    async def set_ready(is_ready):
        told.append(is_ready)

    watch = ReadinessWatch(bench.engine, set_ready, stall_limit_s=0.001)
    await asyncio.sleep(0.01)
    await watch.check()
    assert told == [True]


async def test_an_idle_engine_runs_nothing(bench):
    await bench.generate()
    await bench.rest()
    forwards = bench.backend.num_forwards
    steps = bench.engine.status.num_steps
    await bench.shelf.report_where(lambda report: True)
    assert bench.backend.num_forwards == forwards
    assert bench.engine.status.num_steps == steps
