"""What a worker is told about how much of itself it may use, over real gRPC."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from edgelora.errors import ServiceUnavailableError
from edgelora.v1.inference_service_pb2 import SetRunLimitsResponse
from edgelora.v1.inference_service_pb2_grpc import (
    InferenceServiceServicer,
    add_InferenceServiceServicer_to_server,
)
from services.chassis.claims import open_run_limits
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost
from services.scheduler.pressure.restrictions import RunShares
from services.scheduler.pressure.run_limits import WorkerLimits
from services.scheduler.roster import Worker

SEALER = Sealer(b"a seal key of at least 32 bytes!")
HALF = RunShares(seqs=0.5, prefill=0.25, threads=0.75)


class LimitedWorker(InferenceServiceServicer):
    """Keeps what it is told; fails on demand."""

    def __init__(self):
        self.told = asyncio.Queue()
        self.failure = None

    async def SetRunLimits(self, request, context):
        self.told.put_nowait(open_run_limits(SEALER, request.limits, boot_clock_s()))
        if self.failure is not None:
            raise self.failure
        return SetRunLimitsResponse(max_num_seqs=8, max_prefill_tokens=128, num_threads=1)


@pytest.fixture
async def setup(tmp_path_factory):
    address = f"unix:{tmp_path_factory.mktemp('w')}/i.sock"
    servicer = LimitedWorker()
    host = ServiceHost([address])
    host.add(add_InferenceServiceServicer_to_server, servicer, "edgelora.v1.InferenceService")
    worker = Worker(name="w0", address=address, max_running=4, is_ready=False)
    limits = WorkerLimits(worker, SEALER, boot_clock_s)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(host.serving())
        task = asyncio.create_task(limits.run())
        stack.callback(task.cancel)
        yield worker, limits, servicer


def shares(message):
    return RunShares(
        seqs=message.seqs_share, prefill=message.prefill_share, threads=message.threads_share
    )


async def test_a_worker_that_becomes_ready_is_told_all_it_may_use(setup):
    worker, limits, servicer = setup
    worker.is_ready = True
    limits.note_ready(True)
    message = await servicer.told.get()
    assert (message.worker, shares(message)) == ("w0", RunShares())


async def test_changes_are_told_and_taken_back(setup):
    worker, limits, servicer = setup
    worker.is_ready = True
    limits.note_ready(True)
    generations = [(await servicer.told.get()).generation]
    for wanted in (HALF, RunShares()):
        limits.set_shares(wanted)
        message = await servicer.told.get()
        assert shares(message) == wanted
        generations.append(message.generation)
    assert generations == sorted(set(generations))


async def test_a_worker_that_comes_back_is_told_again(setup):
    worker, limits, servicer = setup
    limits.set_shares(HALF)
    for _ in range(2):
        worker.is_ready = True
        limits.note_ready(True)
        assert shares(await servicer.told.get()) == HALF
        worker.is_ready = False
        limits.note_ready(False)


async def test_a_worker_that_does_not_answer_is_told_again_later(setup, monkeypatch):
    monkeypatch.setattr("services.scheduler.pressure.run_limits._REPEAT_S", 0.05)
    worker, limits, servicer = setup
    servicer.failure = ServiceUnavailableError("not now")
    limits.set_shares(HALF)
    worker.is_ready = True
    limits.note_ready(True)
    await servicer.told.get()
    servicer.failure = None
    assert shares(await servicer.told.get()) == HALF


async def test_limits_of_a_restarted_scheduler_are_newer(setup):
    worker, limits, servicer = setup
    worker.is_ready = True
    limits.note_ready(True)
    first = await servicer.told.get()
    restarted = WorkerLimits(worker, SEALER, boot_clock_s)
    task = asyncio.create_task(restarted.run())
    second = await servicer.told.get()
    task.cancel()
    assert second.generation > first.generation
