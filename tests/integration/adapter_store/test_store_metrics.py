"""What a real adapter store shows of registrations, tiers and Redis."""

import asyncio

import pytest

from edgelora.errors import AdapterRejectedError
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess
from tests.support.adapter_files import good_adapter
from tests.support.free_port import free_port
from tests.support.prometheus import samples, scrape

pytestmark = pytest.mark.integration


@pytest.fixture
async def metered(tmp_path, redis):
    address = f"127.0.0.1:{free_port()}"
    process = StoreProcess(tmp_path, redis, METRICS_ADDRESS=address, FLASH_BUDGET="64MiB")
    try:
        await process.start()
        async with open_channel(process.address) as channel:

            async def shown():
                return samples(await asyncio.to_thread(scrape, address))

            yield StoreClient(channel), shown, redis
    finally:
        process.close()


async def test_registrations_by_result_and_what_flash_holds(metered):
    client, shown, _ = metered
    before = await shown()
    assert before["edgelora_adapters"] == 0
    assert before['edgelora_tier_budget_bytes{tier="flash"}'] == 64 * 2**20
    # No worker has told of its slots yet: unknown, not 0.
    assert 'edgelora_tier_budget_bytes{tier="memory"}' not in before
    await client.register("acme", good_adapter())
    await client.register("acme", good_adapter())
    with pytest.raises(AdapterRejectedError):
        await client.register("acme", good_adapter(1, r=600))
    values = await shown()
    result = 'edgelora_registrations_total{result="%s"}'
    assert values[result % "new"] == 1
    assert values[result % "known"] == 1
    assert values[result % "adapter_rejected"] == 1
    assert values["edgelora_verification_seconds_count"] == 2
    assert values["edgelora_adapters"] == 1
    assert values['edgelora_tier_bytes{tier="flash"}'] > 0
    name = 'edgelora_rpc_errors_total{reason="adapter_rejected",rpc="%s"}'
    name %= "AdapterStoreService/RegisterAdapter"
    # The caller may have its answer before it is counted.
    while name not in (values := await shown()):
        pass
    assert values[name] == 1


async def test_redis_that_goes_is_seen(metered):
    _, shown, redis = metered
    while (values := await shown())["edgelora_hot_index_connected"] == 0:
        pass
    assert values["edgelora_hot_index_errors_total"] == 0
    redis.stop()
    while (values := await shown())["edgelora_hot_index_connected"] == 1:
        pass
    assert values["edgelora_hot_index_errors_total"] >= 1


async def test_without_redis_nothing_is_said_of_it(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    process = StoreProcess(tmp_path, METRICS_ADDRESS=address)
    try:
        await process.start()
        values = samples(await asyncio.to_thread(scrape, address))
        assert not [series for series in values if "hot_index" in series]
        assert 'edgelora_tier_budget_bytes{tier="flash"}' not in values
    finally:
        process.close()
