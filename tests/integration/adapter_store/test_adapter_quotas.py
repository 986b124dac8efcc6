"""How many adapters a tenant may have, and how many bytes of them: as its claim says."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.errors import QuotaExceededError
from services.chassis.channel import open_channel
from services.chassis.claims import seal_claim
from services.chassis.sealing import boot_clock_s
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess
from tests.support.adapter_files import good_adapter

pytestmark = pytest.mark.integration


def claim(client, tenant_id: str = "a", **quota: int):
    return seal_claim(
        client.sealer,
        tenant_id=tenant_id,
        request_id="r",
        expires_at_boot_s=boot_clock_s() + 60,
        **quota,
    )


async def outcome(call) -> str:
    try:
        await call
    except QuotaExceededError as error:
        assert error.metadata[error.field]
        assert error.retry_after_s is None  # waiting does not help
        return error.field
    return "stored"


async def test_of_many_registrations_at_once_exactly_the_quota_is_stored_T40(client):
    outcomes = await asyncio.gather(
        *(
            outcome(client.register("a", good_adapter(seed), claim=claim(client, max_adapters=3)))
            for seed in range(8)
        )
    )
    assert sorted(outcomes) == ["max_adapters"] * 5 + ["stored"] * 3
    assert len((await client.list("a")).adapters) == 3


async def test_bytes_count_the_stored_form_of_every_adapter_whole_T40(client):
    first = (await client.register("b", good_adapter(0))).adapter
    most = 3 * first.flash_bytes + 1

    def register(seed: int):
        quota = claim(client, max_adapters=100, max_adapter_bytes=most)
        return outcome(client.register("a", good_adapter(seed), claim=quota))

    outcomes = await asyncio.gather(*(register(seed) for seed in range(8)))
    assert sorted(outcomes) == ["max_adapter_bytes"] * 5 + ["stored"] * 3
    # What another tenant has too counts as much: a quota tells nothing of others.
    assert await register(0) == ("stored" if outcomes[0] == "stored" else "max_adapter_bytes")
    gone = (await client.list("a")).adapters[0].digest
    await client.delete("a", gone)
    assert await register(20) == "stored"
    assert await register(21) == "max_adapter_bytes"


async def test_a_quota_that_was_lowered_takes_nothing_away(client):
    for seed in range(3):
        await client.register("a", good_adapter(seed))
    low = claim(client, max_adapters=1, max_adapter_bytes=1)
    assert await outcome(client.register("a", good_adapter(9), claim=low)) == "max_adapters"
    assert await outcome(client.register("a", good_adapter(0), claim=low)) == "stored"  # known
    assert (
        len((await client.resolve("a", (await client.list("a")).adapters[2].digest)).adapters) == 1
    )


async def test_no_quota_lifts_the_stores_own_bound(tmp_path):
    store = StoreProcess(tmp_path, MAX_ADAPTERS_PER_TENANT="1")
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            high = claim(client, max_adapters=50)
            assert await outcome(client.register("a", good_adapter(0), claim=high)) == "stored"
            assert (
                await outcome(client.register("a", good_adapter(1), claim=high)) == "max_adapters"
            )
            none = claim(client, max_adapters=0)
            assert (
                await outcome(client.register("a", good_adapter(1), claim=none)) == "max_adapters"
            )
    finally:
        store.close()
