"""What a worker reports of its slots, what the answer has it do, and that nothing counts twice."""

import asyncio

import pytest

from edgelora.v1.adapter_store_service_pb2 import WarmUp
from edgelora.v1.ticket_pb2 import WarmUpPermit
from tests.support.adapter_files import good_adapter
from tests.support.worker_bench import WORKER, worker_bench

pytestmark = pytest.mark.integration


@pytest.fixture
async def bench():
    async with worker_bench(RESIDENCY_INTERVAL="50ms") as made:
        yield made


def wish(bench, digest, evict=""):
    permit = WarmUpPermit(tenant_id="tenant", digest=digest, worker=WORKER)
    return WarmUp(digest=digest, permit=bench.sealer.seal(permit), evict_digest=evict)


def counted(bench, field):
    """What a store counts: every batch once."""
    batches = {report.sequence: report for report in bench.shelf.reports}
    return [each for _, report in sorted(batches.items()) for each in getattr(report, field)]


async def report_with(bench, *digests):
    """Waits until just these are in the slots."""
    return await bench.shelf.report_where(
        lambda report: (
            sorted(digests) == sorted(a.digest for a in report.adapters if not a.is_loading)
        )
    )


async def test_sizes_and_evictions_are_reported(bench):
    one, two, three = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2, 3))
    for digest in (one, two, three):
        await bench.generate(adapters={digest: 1.0})
    report = await report_with(bench, two, three)
    assert [each.size_bytes for each in report.adapters] == [40, 40]
    assert (report.memory_bytes, report.memory_budget_bytes) == (80, 200)
    while len(counted(bench, "loads")) < 3:
        await bench.shelf.reported.wait()
    assert [load.digest for load in counted(bench, "loads")] == [one, two, three]
    assert [(e.digest, e.was_wasted) for e in counted(bench, "evictions")] == [(one, False)]


async def test_a_report_whose_answer_is_lost_is_sent_again_under_its_number(bench):
    await bench.shelf.report_where(lambda report: True)
    bench.shelf.lost_reports = 2
    digests = [bench.shelf.add(good_adapter(seed)) for seed in (1, 2)]
    for digest in digests:
        await bench.generate(adapters={digest: 1.0})
    await report_with(bench, *digests)
    while len(counted(bench, "loads")) < 2:
        await bench.shelf.reported.wait()
    told = [r for r in bench.shelf.reports if r.loads]
    repeated = [r for r in told if r.sequence == told[0].sequence]
    assert len(repeated) > 1
    assert all(list(r.loads) == list(repeated[0].loads) for r in repeated)
    assert [load.digest for load in counted(bench, "loads")] == digests
    sequences = [report.sequence for report in bench.shelf.reports]
    assert sequences == sorted(sequences)


async def test_waits_for_a_slot_are_reported():
    async with worker_bench(MAX_LORAS="1", SLOT_PATIENCE="60s") as bench:
        digests = [bench.shelf.add(good_adapter(seed)) for seed in (1, 2)]
        asked = (bench.generate(adapters={digest: 1.0}, max_tokens=60) for digest in digests)
        await asyncio.gather(*asked)
        await bench.rest()

        def waits():
            batches = {report.sequence: report for report in bench.shelf.reports}
            return sum(report.num_slot_waits for report in batches.values())

        while not waits():
            await bench.shelf.reported.wait()
        assert waits() == 1


async def test_a_wish_is_loaded_ahead_of_use(bench):
    digest = bench.shelf.add(good_adapter())
    bench.shelf.warm_ups = [wish(bench, digest)]
    while not any(load.is_warm_up for load in counted(bench, "loads")):
        await bench.shelf.reported.wait()
    answer = await bench.generate(adapters={digest: 1.0})
    assert answer.finished.usage.adapter_load_time.ToNanoseconds() == 0
    assert bench.shelf.fetched.count(digest) == 1


async def test_a_wish_displaces_only_the_idle_adapter_it_names(bench):
    first, second, third = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2, 3))
    await bench.generate(adapters={first: 1.0})
    await bench.generate(adapters={second: 1.0})
    await report_with(bench, first, second)
    bench.shelf.warm_ups = [wish(bench, third, evict=second)]
    while third not in [load.digest for load in counted(bench, "loads")]:
        await bench.shelf.reported.wait()
    report = await report_with(bench, first, third)
    assert report.num_slots == 2


async def test_a_request_takes_over_what_is_fetched_ahead(bench):
    digest = bench.shelf.add(good_adapter())
    bench.shelf.warm_ups = [wish(bench, digest)]
    bench.shelf.gate.clear()
    await bench.shelf.fetch_of(digest)
    asked = asyncio.create_task(bench.generate(adapters={digest: 1.0}))
    while (await bench.status()).num_adapter_references == 0:
        pass
    bench.shelf.gate.set()
    await asked
    assert bench.shelf.fetched == [digest]
    await report_with(bench, digest)
    while not counted(bench, "loads"):
        await bench.shelf.reported.wait()
    assert [load.is_warm_up for load in counted(bench, "loads")] == [False]


async def test_a_request_does_not_suffer_from_a_wish_that_fails(bench):
    digest = bench.shelf.add(good_adapter())
    bench.shelf.warm_ups = [wish(bench, digest)]
    bench.shelf.failures = 1
    bench.shelf.gate.clear()
    await bench.shelf.fetch_of(digest)
    asked = asyncio.create_task(bench.generate(adapters={digest: 1.0}))
    while (await bench.status()).num_adapter_references == 0:
        pass
    bench.shelf.gate.set()
    await asked
    assert bench.shelf.fetched == [digest, digest]


async def test_pinned_adapters_leave_last(bench):
    one, two, three = (bench.shelf.add(good_adapter(seed)) for seed in (1, 2, 3))
    bench.shelf.pinned = [one]
    for digest in (one, two):
        await bench.generate(adapters={digest: 1.0})
    await report_with(bench, one, two)
    await bench.generate(adapters={three: 1.0})
    await report_with(bench, one, three)
