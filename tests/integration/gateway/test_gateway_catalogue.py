"""Pages, details, pins, habits and tiers, as the store keeps them and a tenant is told."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from edgelora.errors import InvalidRequestError, UnauthenticatedError, from_rpc_error
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import Adapter, AdapterForecast, TierStatistics, WarmUpState

pytestmark = pytest.mark.integration

CANARY = "zebra"


async def register(client, directory, *aliases: str) -> list[str]:
    """Adapters of different content; returns their digests."""
    digests = []
    for alias in aliases:
        (directory / "adapter_config.json").write_text(alias)
        (directory / "adapter_model.safetensors").write_bytes(b"weights")
        digests.append((await client.register_adapter(directory, alias=alias)).adapter.digest)
    return digests


async def test_pages_hold_every_adapter_once_and_the_list_all_of_them(gateway, tmp_path):
    client = await gateway.client()
    digests = await register(client, tmp_path, "e", "d", "c", "b", "a")
    pages = [page async for page in client.adapter_pages(page_size=2)]
    assert [len(page.adapters) for page in pages] == [2, 2, 1]
    assert [adapter.digest for page in pages for adapter in page.adapters] == digests
    assert [alias.name for alias in pages[0].aliases] == ["e", "d"]
    listed = await client.list_adapters()
    assert [adapter.digest for adapter in listed.adapters] == digests
    assert [alias.name for alias in listed.aliases] == ["a", "b", "c", "d", "e"]
    assert not listed.next_page_token
    # Whoever stops reading pages asks for no more of them.
    gateway.store.num_listed.clear()
    async for _ in client.adapter_pages(page_size=2):
        break
    assert gateway.store.num_listed == [2]


async def test_a_thousand_adapters_with_the_longest_texts_are_one_page(gateway):
    client = await gateway.client()
    gateway.store.adapters["acme"] = {
        digest: Adapter(digest=digest, base_digest=digest, description="ß" * 500)
        for digest in (f"sha256:{index:064x}" for index in range(1001))
    }
    pages = [page async for page in client.adapter_pages()]
    assert [len(page.adapters) for page in pages] == [1000, 1]


async def test_one_adapter_is_told_with_its_usage(gateway, tmp_path):
    client = await gateway.client()
    (digest,) = await register(client, tmp_path, "mail")
    for name in ("mail", digest):
        found = await client.get_adapter(name)
        assert found.adapter.digest == digest
        assert found.adapter.usage.num_memory_hits == 4
        assert found.adapter.lineage.source == "upload"
        assert [(alias.name, alias.generation) for alias in found.aliases] == [("mail", 1)]


async def test_an_adapter_is_pinned_and_let_go(gateway, tmp_path):
    client = await gateway.client()
    await register(client, tmp_path, "mail")
    assert (await client.pin_adapter("mail")).is_pinned
    assert (await client.get_adapter("mail")).adapter.is_pinned
    assert not (await client.pin_adapter("mail", is_pinned=False)).is_pinned


async def test_habits_are_the_tenants_own(gateway):
    owner, other = await gateway.client("owner"), await gateway.client("other")
    forecast = AdapterForecast(digest="sha256:1", probability=0.5, reasons=["hour of a weekday"])
    gateway.store.habits["owner"] = WarmUpState(is_enabled=True, num_uses=9, forecasts=[forecast])
    assert await owner.set_warm_up() == gateway.store.habits["owner"]
    assert not (await owner.set_warm_up(is_enabled=False)).is_enabled
    state = await owner.set_warm_up(forget=True)
    assert (state.is_enabled, state.num_uses) == (False, 0)
    assert (await owner.set_warm_up(is_enabled=True)).is_enabled
    state = await other.set_warm_up()
    assert (state.is_enabled, state.num_uses, len(state.forecasts)) == (True, 5, 0)


async def test_the_status_tells_the_tiers_while_the_store_answers(bench):
    store = await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    await bench.start_gateway()
    bench.store.tiers = TierStatistics(num_memory_hits=7, flash_budget_bytes=2**40)
    client = await bench.client()
    assert (await client.status()).tiers == bench.store.tiers
    await store.server.stop(None)
    assert not (await client.status()).HasField("tiers")


async def test_who_asks_reaches_the_store_and_no_log(bench, tmp_path):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    process = await bench.start_gateway_process()
    client = await bench.client()
    await register(client, tmp_path, "mail")
    assert [event async for event in client.generate("Hi", adapters="mail", user="Ann Q7")]
    question = [("user", "Hi")]
    assert [event async for event in client.chat(question, adapters="mail", user="Bob Q8")]
    assert bench.store.users == ["Ann Q7", "Bob Q8"]
    await asyncio.to_thread(process.stop)
    logs = list(bench.directory.glob("services.*.out"))
    assert len(logs) == 2
    for log in logs:
        text = log.read_text()
        assert "rpc_finished" in text
        assert "Q7" not in text
        assert "Q8" not in text


async def test_bad_fields_are_named_and_a_key_is_needed(gateway):
    await gateway.client()
    stub = await gateway.stub()
    cases = [
        (stub.ListAdapters, pb.ListAdaptersRequest(page_size=1001), "page_size"),
        (stub.ListAdapters, pb.ListAdaptersRequest(page_token=CANARY * 100), "page_token"),
        (stub.GetAdapter, pb.GetAdapterRequest(), "adapter"),
        (stub.GetAdapter, pb.GetAdapterRequest(adapter=f"../{CANARY}"), "adapter"),
        (stub.PinAdapter, pb.PinAdapterRequest(adapter=f"{CANARY}/x", is_pinned=True), "adapter"),
    ]
    for method, request, field in cases:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(request, metadata=gateway.authorization(), timeout=10)
        error = from_rpc_error(caught.value)
        assert isinstance(error, InvalidRequestError)
        assert error.field == field
        assert CANARY not in error.message
    for method, request in (
        *((method, request) for method, request, _ in cases),
        (stub.SetWarmUp, pb.SetWarmUpRequest(forget=True)),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(request, timeout=10)
        assert isinstance(from_rpc_error(caught.value), UnauthenticatedError)
    assert gateway.store.habits == {}
