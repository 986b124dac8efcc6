"""Usage that outlives the gateway, also one that is killed."""

from __future__ import annotations

import asyncio
import time

import pytest

from edgelora.generation import Delta, Done
from services.gateway import usage_ledger
from services.gateway.usage_ledger import UsageLedger

pytestmark = pytest.mark.integration
NUM_WORDS = 3  # of the stand-in's answer


async def answer(client) -> None:
    assert isinstance([event async for event in client.generate("Hi")][-1], Done)


async def test_operator_and_tenant_are_told_the_same(bench):
    await bench.start(POWER_WATTS="5")
    client, other = await bench.client("acme"), await bench.client("other")
    for _ in range(3):
        await answer(client)
    await answer(other)
    admin = await bench.admin()
    totals = {total.tenant_id: total for total in await admin.usage()}
    assert {name: total.num_requests for name, total in totals.items()} == {"acme": 3, "other": 1}
    total, seen = totals["acme"], (await client.status()).usage
    assert total.num_output_tokens == seen.num_output_tokens == 3 * NUM_WORDS
    assert total.num_prompt_tokens == seen.num_prompt_tokens > 0
    assert total.energy_joules == seen.energy_joules
    assert seen.HasField("energy_joules")
    assert abs(total.since.seconds - time.time()) < 3600
    assert [each.tenant_id for each in await admin.usage("other")] == ["other"]


async def test_without_the_power_of_the_node_no_energy_is_told(gateway):
    client = await gateway.client()
    await answer(client)
    (total,) = await (await gateway.admin()).usage()
    assert not total.HasField("energy_joules")
    assert not (await client.status()).usage.HasField("energy_joules")


async def test_a_killed_gateway_loses_no_more_than_its_last_second_F01(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler(LEASE="1s")
    process = await bench.start_gateway_process()
    client = await bench.client("acme")
    await answer(client)
    bench.worker.hold_after = 2
    events = client.generate("Hi")
    for _ in range(2):
        while not isinstance(await anext(events), Delta):
            pass
    expected = NUM_WORDS + 2  # of the answer, and of the stream that runs

    def written() -> int:
        ledger = UsageLedger(bench.directory / "gateway" / usage_ledger.FILE_NAME)
        try:
            return sum(total.used.num_output_tokens for total in ledger.load().values())
        finally:
            ledger.close()

    while await asyncio.to_thread(written) < expected:  # the test's own limit ends the wait
        pass
    process.kill()
    with pytest.raises(Exception) as caught:
        async for _ in events:
            pass
    assert caught.value.code == "UNAVAILABLE"
    await bench.start_gateway_process()
    used = (await client.status()).usage
    assert (used.num_requests, used.num_output_tokens) == (2, expected)
    bench.worker.hold_after = None
    await answer(client)
    (total,) = await (await bench.admin()).usage("acme")
    assert (total.num_requests, total.num_output_tokens) == (3, expected + NUM_WORDS)


async def test_a_gateway_that_is_told_to_stop_loses_nothing(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    process = await bench.start_gateway_process()
    client = await bench.client("acme")
    await answer(client)
    assert await asyncio.to_thread(process.stop) == 0
    await bench.start_gateway_process()
    assert (await client.status()).usage.num_output_tokens == NUM_WORDS
