"""Warm-ups through a real store: habits in, wishes to a worker out, off and forgotten."""

import pytest

from edgelora.errors import PermissionDeniedError
from edgelora.v1 import adapter_store_service_pb2 as pb
from services.chassis.channel import open_channel, translate_errors
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess
from tests.support.adapter_files import good_adapter

pytestmark = pytest.mark.integration


async def set_warm_up(client: StoreClient, tenant_id: str, **changes):
    request = pb.AdapterStoreServiceSetWarmUpRequest(claim=client.claim(tenant_id), **changes)
    with translate_errors():
        return (await client.stub.SetWarmUp(request, timeout=20)).state


async def use(client: StoreClient, tenant_id: str, alias: str, times: int = 5) -> None:
    for _ in range(times):
        await client.resolve(tenant_id, alias)


async def test_habit_becomes_a_wish_that_a_worker_may_fetch(client):
    registered = await client.register("a", good_adapter(1), alias="mail")
    digest = registered.adapter.digest
    await use(client, "a", "mail")
    state = await set_warm_up(client, "a")
    assert state.is_enabled
    assert state.num_uses == 5
    assert [each.digest for each in state.forecasts] == [digest]
    assert 0 < state.forecasts[0].probability <= 1
    assert state.forecasts[0].reasons
    response = await client.report("w")
    assert [(wish.digest, wish.evict_digest) for wish in response.warm_ups] == [(digest, "")]
    fetched = await client.fetch(response.warm_ups[0].permit, digest)
    assert fetched.weights == good_adapter(1).weights
    # It is on its way: nothing is asked for twice.
    assert list((await client.report("w")).warm_ups) == []


async def test_tenant_that_switched_it_off_is_neither_learnt_from_nor_warmed(client):
    await client.register("a", good_adapter(1), alias="mail")
    await use(client, "a", "mail")
    assert not (await set_warm_up(client, "a", is_enabled=False)).is_enabled
    await use(client, "a", "mail")
    assert list((await client.report("w")).warm_ups) == []
    state = await set_warm_up(client, "a", is_enabled=True)
    assert state.num_uses == 5
    assert (await set_warm_up(client, "a", forget=True)).num_uses == 0
    assert list((await set_warm_up(client, "a")).forecasts) == []
    assert list((await client.report("w")).warm_ups) == []


async def test_habits_and_the_switch_survive_a_restart(client, store):
    for tenant in ("a", "b"):
        await client.register(tenant, good_adapter(1), alias="mail")
        await use(client, tenant, "mail")
    await set_warm_up(client, "b", is_enabled=False)
    assert store.stop() == 0
    await store.start()
    async with open_channel(store.address) as channel:
        again = StoreClient(channel)
        assert (await set_warm_up(again, "a")).num_uses == 5
        assert not (await set_warm_up(again, "b")).is_enabled
        assert [wish.digest for wish in (await again.report("w")).warm_ups] != []


async def test_deleted_adapter_is_not_warmed(client):
    registered = await client.register("a", good_adapter(1), alias="mail")
    await use(client, "a", "mail")
    await client.delete("a", registered.adapter.digest)
    assert list((await set_warm_up(client, "a")).forecasts) == []
    assert list((await client.report("w")).warm_ups) == []


async def test_operator_can_switch_all_of_it_off(tmp_path):
    store = StoreProcess(tmp_path, WARM_UP="false")
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            await client.register("a", good_adapter(1), alias="mail")
            await use(client, "a", "mail")
            assert list((await client.report("w")).warm_ups) == []
            assert not (await set_warm_up(client, "a", forget=True)).is_enabled
            with pytest.raises(PermissionDeniedError):
                await set_warm_up(client, "a", is_enabled=True)
    finally:
        store.close()
