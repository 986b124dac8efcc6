"""Three classes at once over the wire: who leaves, who waits, and what is left behind (I5)."""

import asyncio
import threading

import pytest

from edgelora.adapter_format import adapter_digest
from services.inference import adapter_source
from tests.support.adapter_files import good_adapter
from tests.support.held_outside import HeldOutside
from tests.support.worker_bench import make_ticket, worker_bench

pytestmark = pytest.mark.integration

INTERACTIVE, BACKGROUND, BATCH = 1, 2, 3
CLASSES = (INTERACTIVE, BACKGROUND, BATCH)


@pytest.fixture
async def bench():
    async with worker_bench(AGING="300ms") as made:
        yield made


def call(bench, adapters=None, *, priority, prompt="please sing", **options):
    ticket = make_ticket(bench.sealer, adapters or {}, priority=priority)
    return bench.call(prompt, ticket=ticket, **options)


async def read_all(stream):
    ids = []
    async for response in stream:
        if response.HasField("delta"):
            ids += response.delta.token_ids
    return ids


async def first_delta(stream):
    while not (await stream.read()).HasField("delta"):
        pass


async def test_base_rows_all_slots_and_cancels_in_three_classes_Q02_I5(bench):
    digests = [bench.shelf.add(good_adapter(seed)) for seed in (1, 2, 3)]
    uses = [{}, {digests[0]: 1.0}, {digests[1]: 1.0}, {digests[2]: 1.0}]
    texts = ["please sing", "a", "the sun is up " * 6]
    asked = [(uses[n % 4], texts[n % 3], 5 + n % 7) for n in range(36)]
    solo = [
        await read_all(call(bench, use, priority=INTERACTIVE, prompt=text, max_tokens=count))
        for use, text, count in asked[:12]
    ]
    for use in uses:  # whatever is started when it is first needed
        await read_all(call(bench, use, priority=BATCH, max_tokens=1))
    await bench.rest()
    before = HeldOutside.now()
    calls = [
        call(bench, use, priority=CLASSES[n % 5 % 3], prompt=text, max_tokens=count)
        for n, (use, text, count) in enumerate(asked)
    ]
    kept = [asyncio.create_task(read_all(each)) for each in calls[:12]]
    for each in calls[12:32]:
        await each.read()
        each.cancel()
    rest = [asyncio.create_task(read_all(each)) for each in calls[32:]]
    assert await asyncio.gather(*kept) == solo
    assert all(
        len(ids) == count
        for ids, (_, _, count) in zip(await asyncio.gather(*rest), asked[32:], strict=True)
    )
    await bench.rest()
    del calls, kept, rest
    await before.again()


async def test_a_batch_request_behind_endless_interactive_ones_ends_Q03():
    async with worker_bench(MAX_LORAS="1", MAX_NUM_SEQS="2", AGING="300ms") as bench:
        one, two = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2))
        solo = await read_all(call(bench, {two: 1.0}, priority=INTERACTIVE, max_tokens=40))
        is_over = False

        async def crowd():
            while not is_over:
                await read_all(call(bench, {one: 1.0}, priority=INTERACTIVE, max_tokens=12))

        crowds = [asyncio.create_task(crowd()) for _ in range(6)]
        while (await bench.status()).num_waiting < 2:
            pass
        ids = await read_all(call(bench, {two: 1.0}, priority=BATCH, max_tokens=40))
        is_over = True
        await asyncio.gather(*crowds)
        assert ids == solo
        await bench.rest()


async def test_an_adapter_somebody_waits_for_is_not_read_behind_others_Q05(bench, monkeypatch):
    one, two = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2))
    may_go_on = threading.Event()

    def digest_of(config, weights):
        is_patient = threading.current_thread().name.startswith("patient")
        assert not is_patient or may_go_on.wait(60)
        return adapter_digest(config, weights)

    monkeypatch.setattr(adapter_source, "adapter_digest", digest_of)
    batch = asyncio.create_task(read_all(call(bench, {one: 1.0}, priority=BATCH, max_tokens=8)))
    await bench.shelf.fetch_of(one)
    assert len(await read_all(call(bench, {two: 1.0}, priority=INTERACTIVE, max_tokens=8))) == 8
    assert not batch.done()
    may_go_on.set()
    assert len(await batch) == 8


async def test_who_leaves_while_paused_leaves_nothing_and_the_others_go_on_S10(bench):
    solo = await read_all(call(bench, priority=INTERACTIVE, max_tokens=60))
    permits = threading.Semaphore(0)
    bench.backend.before_forward = lambda chunks: permits.acquire()

    async def step_until(condition):
        while not condition(await bench.status()):
            permits.release()

    batch = [call(bench, priority=BATCH, max_tokens=60) for _ in range(4)]
    await step_until(lambda status: status.num_running == 4)
    urgent = [call(bench, priority=INTERACTIVE, max_tokens=60) for _ in range(3)]
    await step_until(lambda status: (status.num_running, status.num_waiting) == (4, 3))
    for each in batch[1:]:  # those that wait for their seats
        each.cancel()
    await step_until(lambda status: (status.num_running, status.num_waiting) == (4, 0))
    urgent[0].cancel()
    bench.backend.before_forward = lambda chunks: None
    permits.release(1000)
    answers = await asyncio.gather(*map(read_all, [batch[0], *urgent[1:]]))
    assert answers == [solo] * 3
    await bench.rest()


async def test_two_hundred_readers_of_one_token_in_three_classes_leave_nothing_behind_S11(bench):
    digests = [bench.shelf.add(good_adapter(seed)) for seed in (1, 2, 3)]
    for number in range(200):
        adapters = ({}, *({digest: 1.0} for digest in digests))[number % 4]
        stream = call(bench, adapters, priority=CLASSES[number % 3], max_tokens=60)
        await first_delta(stream)
        stream.cancel()
    await bench.rest()
    assert len(await read_all(call(bench, priority=BATCH, max_tokens=8))) == 8
