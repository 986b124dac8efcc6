"""Adapters on their way from the store into a slot, and everything that can go wrong there."""

import asyncio
import hashlib

import grpc
import pytest

from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterNotFoundError,
    AdapterRejectedError,
    DataCorruptError,
    ServiceUnavailableError,
    from_rpc_error,
)
from tests.support.adapter_files import (
    TINY_TARGETS,
    AdapterFiles,
    config_bytes,
    good_adapter,
    safetensors_bytes,
    tensors,
)
from tests.support.worker_bench import make_ticket, worker_bench

pytestmark = pytest.mark.integration


@pytest.fixture
async def bench():
    async with worker_bench() as made:
        yield made


async def error_of(bench, adapters, **options):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in bench.call(adapters=adapters, **options):
            pass
    return from_rpc_error(caught.value)


async def test_adapters_change_the_answer_and_stay_in_their_slots(bench):
    one, two = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2))
    answers = [await bench.generate(adapters=each) for each in ({}, {one: 1.0}, {two: 1.0})]
    assert len({answer.text for answer in answers}) == 3
    assert answers[1].finished.usage.adapter_load_time.ToNanoseconds() > 0
    again = await bench.generate(adapters={one: 1.0})
    assert again.token_ids == answers[1].token_ids
    assert again.finished.usage.adapter_load_time.ToNanoseconds() == 0
    assert bench.shelf.fetched == [one, two]
    status = await bench.rest()
    assert status.num_resident_adapters == 2


async def test_strengths_and_mixes(bench):
    one, two = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2))
    base = await bench.generate()
    assert (await bench.generate(adapters={one: 0.0})).token_ids == base.token_ids
    assert bench.shelf.fetched == []  # no adapter row, and nothing loaded for it
    texts = [
        (await bench.generate(adapters=each)).text
        for each in ({one: 1.0}, {one: 0.5}, {one: 1.0, two: 1.0}, {one: 1.0, two: 0.5})
    ]
    assert len({base.text, *texts}) == 5


async def test_mixed_adapters_equal_solo_runs_A18_Q07(bench):
    digests = [bench.shelf.add(good_adapter(seed)) for seed in (1, 2, 3)]
    asked = [{}, {digests[0]: 1.0}, {digests[1]: 1.0}, {digests[0]: 1.0, digests[1]: 0.5}]
    asked.append({digests[2]: 2.0})
    solo = [(await bench.generate(adapters=each)).token_ids for each in asked]
    mixed = await asyncio.gather(*(bench.generate(adapters=each) for each in asked))
    assert [answer.token_ids for answer in mixed] == solo


async def test_one_fetch_serves_all_who_wait(bench):
    digest = bench.shelf.add(good_adapter())
    answers = await asyncio.gather(*(bench.generate(adapters={digest: 1.0}) for _ in range(4)))
    assert len({answer.text for answer in answers}) == 1
    assert bench.shelf.fetched == [digest]


async def test_the_shared_directory_is_read_by_the_worker_itself():
    async with worker_bench(is_shared=True) as bench, worker_bench() as other:
        digest = bench.shelf.add(good_adapter())
        other.shelf.add(good_adapter())
        shared = await bench.generate(adapters={digest: 1.0})
        assert shared.token_ids == (await other.generate(adapters={digest: 1.0})).token_ids


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:-4] + b"\0\0\0\1",
        lambda data: b"version https://git-lfs.github.com/spec/v1\n",
        lambda data: data + b"\0" * (4 * 2**20 + 10**6),
    ],
)
async def test_damaged_bytes_are_never_served_A16(damage, is_shared):
    async with worker_bench(is_shared=is_shared) as bench:
        digest = bench.shelf.add(good_adapter())
        bench.shelf.damage = damage
        stream = asyncio.create_task(bench.generate(max_tokens=60))
        error = await error_of(bench, {digest: 1.0})
        assert isinstance(error, DataCorruptError)
        assert error.code == "DATA_LOSS"
        assert len((await stream).token_ids) == 60
        assert (await bench.rest()).num_resident_adapters == 0


async def test_a_blob_that_is_a_link_is_not_followed():
    async with worker_bench(is_shared=True) as bench:
        digest = bench.shelf.add(good_adapter())
        blobs = bench.shelf._blobs
        target = blobs / "elsewhere"
        (blobs / hashlib.sha256(good_adapter().weights).hexdigest()).symlink_to(target)
        assert isinstance(await error_of(bench, {digest: 1.0}), DataCorruptError)


REFUSED = {
    "another rank": (AdapterRejectedError, good_adapter(r=32)),
    "rank_pattern": (AdapterRejectedError, good_adapter(rank_pattern={"q_proj": 128})),
    "dora": (AdapterRejectedError, good_adapter(use_dora=True)),
    "absent module": (AdapterIncompatibleError, good_adapter(target_modules=["c_attn"])),
    "another base": (
        AdapterIncompatibleError,
        AdapterFiles(
            config_bytes(),
            safetensors_bytes(tensors(targets=TINY_TARGETS | {"q_proj": (32, 33)})),
        ),
    ),
    "half missing": (AdapterRejectedError, good_adapter(target_modules=["q_proj", "o_proj"])),
    "not finite": (
        AdapterRejectedError,
        AdapterFiles(config_bytes(), safetensors_bytes(tensors(scale=float("inf")))),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_an_adapter_that_can_not_be_served_fails_alone_A03_A06_A20(bench, name):
    error_class, files = REFUSED[name]
    digest = "sha256:" + "0" * 64
    if name not in ("another rank", "rank_pattern", "dora"):
        digest = bench.shelf.add(files)
    bench.shelf.add(files, digest)
    stream = asyncio.create_task(bench.generate(max_tokens=60))
    assert isinstance(await error_of(bench, {digest: 1.0}), error_class)
    assert len((await stream).token_ids) == 60
    assert (await bench.rest()).num_resident_adapters == 0


async def test_a_refused_adapter_is_not_tried_again_for_a_while_and_is_reported_A04(bench):
    bad = bench.shelf.add(good_adapter(target_modules=["c_attn"]))
    good = bench.shelf.add(good_adapter(1))
    for _ in range(3):
        assert isinstance(await error_of(bench, {bad: 1.0}), AdapterIncompatibleError)
        await bench.generate(adapters={good: 1.0})
    assert bench.shelf.fetched == [bad, good]
    report = await bench.shelf.report_where(lambda report: len(report.refused) == 1)
    assert report.refused[0].digest == bad
    assert "c_attn" in report.refused[0].reason


async def test_a_refusal_ends_and_the_adapter_is_tried_again():
    async with worker_bench(REFUSAL_HOLD="0s") as bench:
        digest = bench.shelf.add(good_adapter())
        bench.shelf.damage = lambda data: data[:-1]
        assert isinstance(await error_of(bench, {digest: 1.0}), DataCorruptError)
        bench.shelf.damage = lambda data: data
        await bench.generate(adapters={digest: 1.0})


async def test_two_who_wait_for_a_bad_adapter_get_the_same_error_A17(bench):
    digest = bench.shelf.add(good_adapter(target_modules=["c_attn"]))
    bench.shelf.gate.clear()
    errors = [asyncio.create_task(error_of(bench, {digest: 1.0})) for _ in range(2)]
    while (await bench.status()).num_adapter_references < 2:
        pass
    bench.shelf.gate.set()
    messages = {error.message for error in await asyncio.gather(*errors)}
    assert len(messages) == 1
    await bench.rest()


async def test_unknown_adapters_and_a_store_that_is_away_are_no_fault_of_the_adapter(bench):
    digest = bench.shelf.add(good_adapter())
    bench.shelf.error = AdapterNotFoundError("gone")
    assert isinstance(await error_of(bench, {digest: 1.0}), AdapterNotFoundError)
    bench.shelf.error = ServiceUnavailableError("away")
    assert isinstance(await error_of(bench, {digest: 1.0}), ServiceUnavailableError)
    bench.shelf.error = None
    await bench.generate(adapters={digest: 1.0})  # at once: nothing was held against it


async def test_a_store_that_hangs_costs_only_those_who_need_it_A22():
    async with worker_bench(FETCH_TIMEOUT="300ms") as bench:
        digest = bench.shelf.add(good_adapter())
        bench.shelf.gate.clear()
        waiting = asyncio.create_task(error_of(bench, {digest: 1.0}))
        await bench.generate(max_tokens=60)
        error = await waiting
        assert error.code == "DEADLINE_EXCEEDED"
        await bench.rest()


async def test_cancelling_while_the_adapter_loads_gives_the_slot_back_F22(bench):
    digest = bench.shelf.add(good_adapter())
    bench.shelf.gate.clear()
    call = bench.call(adapters={digest: 1.0})
    reading = asyncio.create_task(call.read())
    while (await bench.status()).num_adapter_references == 0:
        pass
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    status = await bench.rest()
    assert status.num_waiting == 0
    bench.shelf.gate.set()
    await bench.generate(adapters={digest: 1.0})
    assert bench.shelf.fetched == [digest]


async def test_a_ticket_opens_its_own_adapters_only(bench):
    mine, theirs = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2))
    ticket = make_ticket(bench.sealer, {mine: 1.0})
    answer = await bench.generate(adapters={theirs: 1.0}, ticket=ticket)
    assert answer.token_ids == (await bench.generate(adapters={mine: 1.0})).token_ids
    assert theirs not in bench.shelf.fetched


async def test_more_adapters_than_slots_take_turns_Q03():
    async with worker_bench(SLOT_PATIENCE="50ms") as bench:
        digests = [bench.shelf.add(good_adapter(seed)) for seed in range(6)]
        solo = [(await bench.generate(adapters={d: 1.0})).token_ids for d in digests]
        mixed = await asyncio.gather(*(bench.generate(adapters={d: 1.0}) for d in digests * 3))
        assert [answer.token_ids for answer in mixed] == solo * 3
        assert (await bench.rest()).num_resident_adapters == 2


async def test_residency_is_reported_on_every_change_and_deletions_come_back_Q06(bench):
    digest = bench.shelf.add(good_adapter())
    await bench.generate(adapters={digest: 1.0})
    report = await bench.shelf.report_where(
        lambda report: [a.digest for a in report.adapters if not a.is_loading] == [digest]
    )
    assert (report.worker, report.num_slots) == ("w0", 2)
    assert report.incarnation > 0
    bench.shelf.deleted.add(digest)
    other = bench.shelf.add(good_adapter(5))
    await bench.generate(adapters={other: 1.0})
    await bench.shelf.report_where(
        lambda report: [a.digest for a in report.adapters if not a.is_loading] == [other]
    )
    assert (await bench.rest()).num_resident_adapters == 1


async def test_each_process_reports_under_a_number_of_its_own():
    numbers = set()
    for _ in range(2):
        async with worker_bench() as bench:
            report = await bench.shelf.report_where(lambda report: True)
            numbers.add(report.incarnation)
    assert len(numbers) == 2


async def test_a_hundred_loads_leave_no_more_than_the_slots_L6(bench):
    digests = [bench.shelf.add(good_adapter(seed)) for seed in range(5)]
    for number in range(100):
        await bench.generate(adapters={digests[number % 5]: 1.0}, max_tokens=1)
    status = await bench.rest()
    assert (status.num_resident_adapters, status.num_adapter_references) == (2, 0)
    assert len(bench.shelf.fetched) == 100
