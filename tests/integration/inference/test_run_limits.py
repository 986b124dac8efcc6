"""How much of itself a worker uses is the scheduler's to say, and nobody else's."""

import asyncio
import math

import grpc
import pytest

from edgelora.errors import (
    InvalidRequestError,
    PermissionDeniedError,
    UnauthenticatedError,
    from_rpc_error,
)
from edgelora.v1 import inference_service_pb2 as pb
from edgelora.v1.ticket_pb2 import RunLimits, Ticket
from services.chassis.claims import seal_run_limits
from services.chassis.sealing import Sealer, boot_clock_s
from tests.support.worker_bench import KEY, WORKER, make_ticket, worker_bench

pytestmark = pytest.mark.integration


@pytest.fixture
async def bench():
    async with worker_bench(MAX_NUM_BATCHED_TOKENS="40") as made:
        yield made


def limits(**changes):
    values = {
        "worker": WORKER,
        "seqs_share": 0.5,
        "prefill_share": 0.25,
        "threads_share": 0.5,
        "expires_at_boot_s": boot_clock_s() + 60,
        "generation": 7,
    }
    return RunLimits(**(values | changes))


async def set_limits(bench, message, sealer=None):
    sealed = seal_run_limits(sealer or Sealer(KEY), message)
    return await bench.stub.SetRunLimits(pb.SetRunLimitsRequest(limits=sealed))


async def refusal(awaitable):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable
    return from_rpc_error(caught.value)


def in_force(status):
    return status.max_num_seqs, status.max_prefill_tokens, status.num_threads


async def status_with(bench, expected):
    while in_force(status := await bench.status()) != expected:
        pass
    return status


async def test_shares_are_told_in_numbers_and_lifted_again(bench):
    assert in_force(await bench.status()) == (4, 40, 4)
    assert in_force(await set_limits(bench, limits())) == (2, 10, 2)
    await status_with(bench, (2, 10, 2))
    assert in_force(await set_limits(bench, limits())) == (2, 10, 2)  # again is harmless
    whole = limits(seqs_share=1, prefill_share=1, threads_share=1, generation=8)
    assert in_force(await set_limits(bench, whole)) == (4, 40, 4)
    await status_with(bench, (4, 40, 4))
    least = limits(seqs_share=1e-9, prefill_share=1e-9, threads_share=1e-9, generation=9)
    await set_limits(bench, least)
    await status_with(bench, (1, 1, 1))
    assert len((await bench.generate()).token_ids) == 8


async def test_running_batch_requests_are_paused_and_end_as_they_would_have(bench):
    prompts = ["please sing", "the sun", "a b c", "be kind"]
    solo = [(await bench.generate(prompt, max_tokens=90)).token_ids for prompt in prompts]

    async def run(prompt, priority):
        ticket = make_ticket(bench.sealer, priority=priority)
        return await bench.generate(prompt, ticket=ticket, max_tokens=90)

    started = bench.backend.num_forwards
    running = [asyncio.create_task(run(each, 3)) for each in prompts[:3]]
    running.append(asyncio.create_task(run(prompts[3], 1)))
    while bench.backend.num_forwards < started + 10:
        await bench.status()
    await set_limits(bench, limits(seqs_share=0.25))
    answers = await asyncio.gather(*running)
    assert [answer.token_ids for answer in answers] == solo
    assert answers[3].finished.usage.num_preemptions == 0
    await bench.rest()


async def test_limits_of_another_worker_or_an_older_message_change_nothing(bench):
    await set_limits(bench, limits())
    for message in (limits(worker="another", generation=8), limits(generation=6, seqs_share=1)):
        assert isinstance(await refusal(set_limits(bench, message)), PermissionDeniedError)
    await status_with(bench, (2, 10, 2))


async def test_void_or_forged_limits_are_refused(bench):
    refused = await refusal(set_limits(bench, limits(expires_at_boot_s=boot_clock_s() - 1)))
    assert isinstance(refused, UnauthenticatedError)
    forger = Sealer(b"another key of at least 32 bytes!")
    assert isinstance(await refusal(set_limits(bench, limits(), forger)), UnauthenticatedError)
    ticket = Sealer(KEY).seal(Ticket(ticket_id=WORKER, worker=WORKER))
    request = pb.SetRunLimitsRequest(limits=ticket)
    assert isinstance(await refusal(bench.stub.SetRunLimits(request)), UnauthenticatedError)
    assert in_force(await bench.status()) == (4, 40, 4)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.0001, math.nan, math.inf])
@pytest.mark.parametrize("name", ["seqs_share", "prefill_share", "threads_share"])
async def test_shares_out_of_range_are_named_and_do_not_count_as_the_newest(bench, name, share):
    refused = await refusal(set_limits(bench, limits(generation=99, **{name: share})))
    assert isinstance(refused, InvalidRequestError)
    assert refused.field == f"limits.{name}"
    assert in_force(await set_limits(bench, limits())) == (2, 10, 2)
