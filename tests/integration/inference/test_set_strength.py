"""Strengths of running requests, and what requests and adapters cost, as a worker tells it."""

import asyncio
import math
import threading

import grpc
import pytest

from tests.support.adapter_files import good_adapter
from tests.support.worker_bench import all_forgotten, make_ticket, worker_bench

pytestmark = pytest.mark.integration


@pytest.fixture
async def bench():
    async with worker_bench() as made:
        yield made


class Gate:
    """Holds every step until it may."""

    def __init__(self):
        self._reached, self._may = threading.Semaphore(0), threading.Semaphore(0)
        self._is_open = False

    def __call__(self, chunks):
        if not self._is_open:
            self._reached.release()
            assert self._may.acquire(timeout=30)

    async def reached(self):
        assert await asyncio.to_thread(self._reached.acquire, True, 30)

    def step(self):
        self._may.release()

    def open(self):
        self._is_open = True
        self._may.release()


async def started(bench, adapters, **options):
    """A call whose next step waits, and its text so far."""
    gate = bench.backend.before_forward = Gate()
    call = bench.call(adapters=adapters, **({"max_tokens": 60} | options))
    reading = asyncio.create_task(first_text(call))
    await gate.reached()
    while not reading.done():
        gate.step()
        await gate.reached()
        await bench.status()
    return gate, call, await reading


async def first_text(call):
    while not (response := await call.read()).HasField("delta"):
        pass
    return response.delta.text


async def changed(bench, gate, strength, **names):
    """Changes a strength while a step waits, which then runs."""
    changing = asyncio.create_task(bench.set_strength(strength, **names))
    while bench.engine._thread.commands.empty():
        await bench.status()
    gate.step()
    return await changing


async def rest_of(call):
    """Text and tokens of what is still to come."""
    text, usage = "", None
    while (response := await call.read()) is not grpc.aio.EOF:
        text += response.delta.text
        if response.HasField("finished"):
            usage = response.finished.usage
    return text, usage


async def refused(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


async def test_a_running_stream_changes(bench):
    digest = bench.shelf.add(good_adapter(1))
    base, full = [
        (await bench.generate(adapters=adapters, max_tokens=60)).text
        for adapters in ({}, {digest: 1.0})
    ]
    gate, call, first = await started(bench, {digest: 1.0})
    assert await changed(bench, gate, 0.5) == {digest: 0.5}
    assert await changed(bench, gate, 0.25, adapter=digest) == {digest: 0.25}
    gate.open()
    text, usage = await rest_of(call)
    assert full.startswith(first)
    assert first + text not in (full, base)
    assert usage.num_output_tokens == 60
    assert (await bench.rest()).num_adapter_references == 0


async def test_before_its_first_token_it_runs_as_if_asked_for_so(bench):
    digest = bench.shelf.add(good_adapter(1))
    base = (await bench.generate(max_tokens=12)).text
    half = (await bench.generate(adapters={digest: 0.5}, max_tokens=12)).text
    for strength, expected in ((0.0, base), (0.5, half)):
        gate = Gate()
        bench.backend.before_forward = gate
        blocker = bench.call(ticket=make_ticket(bench.sealer, request_id="other"), max_tokens=2)
        await gate.reached()
        call = bench.call(adapters={digest: 1.0}, max_tokens=12)
        await call.initial_metadata()
        setting = asyncio.create_task(bench.set_strength(strength))
        while bench.engine._thread.commands.qsize() < 2:  # the request and its change
            await bench.status()
        gate.open()
        assert await setting == {digest: strength}
        text, _ = await rest_of(call)
        await rest_of(blocker)
        assert text == expected
        bench.backend.before_forward = lambda chunks: None


async def test_what_changed_while_the_ticket_was_waited_for_counts_from_the_start(bench):
    one, two = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2))
    base = (await bench.generate(max_tokens=12)).text
    half = (await bench.generate(adapters={one: 0.5}, max_tokens=12)).text
    for adapters, strengths, expected in (
        ({one: 1.0}, {one: 0.5}, half),
        ({one: 1.0}, {one: 0.0}, base),
        ({one: 1.0, two: 1.0}, {one: 0.5, two: 0.0}, half),
        ({one: 0.0}, {one: 0.5}, half),
        ({one: 0.0}, {}, base),
    ):
        answer = await bench.generate(adapters=adapters, strengths=strengths, max_tokens=12)
        assert answer.text == expected
    code, details = await refused(bench.generate(adapters={one: 1.0}, strengths={two: 0.5}))
    assert (code, "strengths[0].digest" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
    for strength in (-0.1, 2.1, math.nan, math.inf):
        code, _ = await refused(bench.generate(adapters={one: 1.0}, strengths={one: strength}))
        assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_unknown_foreign_and_ended_are_the_same_to_whoever_asks(bench):
    digest = bench.shelf.add(good_adapter(1))
    gate, call, _ = await started(bench, {digest: 1.0})
    answers = {
        await refused(bench.set_strength(1.0, request_id="no such")),
        await refused(bench.set_strength(1.0, claim=bench.claim("two"))),
    }
    gate.open()
    await rest_of(call)
    answers.add(await refused(bench.set_strength(1.0)))
    assert len(answers) == 1
    assert answers.pop()[0] is grpc.StatusCode.NOT_FOUND


async def test_wrong_strengths_adapters_and_claims_change_nothing(bench):
    digest, other = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2))
    full = (await bench.generate(adapters={digest: 1.0}, max_tokens=60)).text
    gate, call, first = await started(bench, {digest: 1.0, other: 0.0})
    for strength in (-0.01, 2.01, math.nan, math.inf, -math.inf):
        code, details = await refused(bench.set_strength(strength))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "strength" in details
    for adapter in (other, "sha256:" + "0" * 64, "mail"):
        code, details = await refused(bench.set_strength(1.5, adapter=adapter))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "adapter" in details
    for claim in (bench.claim(lasts_s=-1.0), make_ticket(bench.sealer)):
        code, _ = await refused(bench.set_strength(1.5, claim=claim))
        assert code is grpc.StatusCode.UNAUTHENTICATED
    gate.open()
    text, _ = await rest_of(call)
    assert first + text == full


async def test_the_base_alone_has_no_strength(bench):
    gate, call, _ = await started(bench, {})
    code, _ = await refused(bench.set_strength(1.0))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    gate.open()
    await rest_of(call)


async def test_two_hundred_changes_at_once_end_well(bench):
    digest = bench.shelf.add(good_adapter(1))
    call = bench.call(adapters={digest: 1.0}, max_tokens=100)
    await call.read()
    changes = [bench.set_strength(number / 100) for number in range(200)]
    answers = await asyncio.gather(*changes, return_exceptions=True)
    _, usage = await rest_of(call)
    assert usage.num_output_tokens == 100
    for answer in answers:
        is_over = isinstance(answer, grpc.aio.AioRpcError)
        assert answer.code() is grpc.StatusCode.NOT_FOUND if is_over else list(answer) == [digest]
    await all_forgotten(bench)


async def test_what_requests_and_adapters_cost_adds_up(bench):
    digests = [bench.shelf.add(good_adapter(seed)) for seed in (1, 2)]
    mixes = [{}, {digests[0]: 1.0}, {digests[1]: 1.0}, dict.fromkeys(digests, 1.0)]
    answers = await asyncio.gather(
        *(bench.generate(adapters=mixes[number % 4], max_tokens=20) for number in range(12))
    )
    for answer in answers:
        total_s = answer.finished.usage.engine_time.ToNanoseconds() / 1e9
        assert answer.engine_times_s == sorted(answer.engine_times_s)
        assert answer.engine_times_s[-1] <= total_s
        assert total_s > 0
    status = await bench.rest()
    step_s = status.step_time.ToNanoseconds() / 1e9
    shares = {share.digest: share for share in status.shares}
    assert {"", *digests} == set(shares)
    shares_s = sum(share.step_time.ToNanoseconds() for share in status.shares) / 1e9
    assert shares_s == pytest.approx(step_s, rel=0.001)
    requests_s = sum(answer.finished.usage.engine_time.ToNanoseconds() for answer in answers) / 1e9
    assert 0.5 * step_s < requests_s <= step_s
    assert {slot.digest for slot in status.slots} == set(digests)
    assert all(slot.size_bytes and not slot.num_references for slot in status.slots)
