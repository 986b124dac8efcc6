import asyncio

import pytest

from edgelora.errors import QueueFullError
from services.adapter_store.remotes.tenant_slots import TenantSlots


async def test_tenants_wait_for_themselves_only():
    slots = TenantSlots(num_slots=2, max_waiting=1)
    running: list[str] = []
    go = asyncio.Event()

    async def download(tenant):
        async with slots.take(tenant):
            running.append(tenant)
            await go.wait()

    tasks = [asyncio.ensure_future(download(tenant)) for tenant in ("a", "a", "a", "b")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert running == ["a", "a", "b"]
    with pytest.raises(QueueFullError) as caught:
        await download("a")
    assert caught.value.retry_after_s is not None
    go.set()
    await asyncio.gather(*tasks)
    assert running == ["a", "a", "b", "a"]


async def test_who_gives_up_waiting_leaves_its_place():
    slots = TenantSlots(num_slots=1, max_waiting=1)
    async with slots.take("a"):
        waiting = asyncio.ensure_future(slots.take("a").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        another = asyncio.ensure_future(slots.take("a").__aenter__())
        await asyncio.sleep(0)
        assert not another.done()
        another.cancel()
        await asyncio.gather(another, return_exceptions=True)
