"""Granted adapters through the gateway: one tenant's adapter in another one's answers."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.errors import AdapterNotFoundError, NotFoundError, PermissionDeniedError
from edgelora.generation import Delta, Done
from services.gateway import grants
from tests.integration.adapter_store.store_process import StoreProcess
from tests.support.adapter_files import good_adapter

pytestmark = pytest.mark.integration


class Node:
    """A gateway before a real store; `a` has the adapter `letters`."""

    def __init__(self, bench, store: StoreProcess, tmp_path) -> None:
        self.bench = bench
        self.store = store
        self._tmp_path = tmp_path

    async def start(self) -> None:
        await self.store.start()
        await self.bench.start_worker()
        self.bench.start_scheduler(STORE_ADDRESS=self.store.address)
        await self.bench.start_gateway(STORE_ADDRESS=self.store.address)
        self.owner = await self.bench.client("a")
        self.holder = await self.bench.client("b")
        self.admin = await self.bench.admin()
        directory = self._tmp_path / "letters"
        directory.mkdir()
        files = good_adapter(seed=1)
        (directory / "adapter_config.json").write_bytes(files.config)
        (directory / "adapter_model.safetensors").write_bytes(files.weights)
        registered = await self.owner.register_adapter(directory, alias="letters")
        self.digest = registered.adapter.digest

    async def used(self, client, adapters) -> list[str]:
        """Digests an answer was made with."""
        events = [event async for event in client.generate("Hi", adapters=adapters)]
        assert isinstance(events[-1], Done)
        return [adapter.digest for adapter in events[0].adapters]


@pytest.fixture
async def node(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(grants, "_UPKEEP_PERIOD_S", 0.1)
    store = StoreProcess(tmp_path, SEAL_KEY_FILE=str(bench.directory / "seal.key"))
    try:
        node = Node(bench, store, tmp_path)
        await node.start()
        yield node
    finally:
        store.close()


async def test_a_granted_adapter_answers_and_a_withdrawn_one_does_not_T34(node):
    with pytest.raises(AdapterNotFoundError):
        await node.used(node.holder, "letters")
    grant = await node.admin.grant_adapter("a", "letters", "b", alias="post")
    assert grant.digest == node.digest
    assert await node.used(node.holder, "post") == [node.digest]
    assert await node.used(node.holder, {"post": 0.5}) == [node.digest]
    (listed,) = (await node.holder.list_adapters()).adapters
    assert (list(listed.aliases), listed.is_granted) == (["post"], True)
    with pytest.raises(PermissionDeniedError):
        await node.holder.delete_adapter("post")

    # What was accepted before the withdrawal finishes; nothing starts after it.
    node.bench.worker.hold_after = 1
    events = node.holder.generate("Hi", adapters="post")
    while not isinstance(await anext(events), Delta):
        pass
    await node.admin.withdraw_adapter("b", node.digest)
    with pytest.raises(AdapterNotFoundError):
        await node.used(node.holder, "post")
    node.bench.worker.go_on.set()
    assert isinstance([event async for event in events][-1], Done)
    assert await node.used(node.owner, "letters") == [node.digest]


async def test_only_tenants_that_are_there_grant_and_are_granted(node):
    for names in (("nobody", "letters", "b"), ("a", "letters", "nobody")):
        with pytest.raises(NotFoundError):
            await node.admin.grant_adapter(*names)
    with pytest.raises(AdapterNotFoundError):
        await node.admin.grant_adapter("b", "letters", "a")
    await node.admin.revoke_tenant("b")
    with pytest.raises(NotFoundError):
        await node.admin.grant_adapter("a", "letters", "b")


@pytest.mark.parametrize("revoked", ["a", "b"])
async def test_revoking_either_side_ends_the_grant(node, revoked):
    await node.admin.grant_adapter("a", "letters", "b", alias="post")
    await node.bench.client("c")
    await node.admin.grant_adapter("a", "letters", "c")
    await node.admin.revoke_tenant(revoked)
    left = [grant.tenant_id for grant in await node.admin.list_grants()]
    assert left == ([] if revoked == "a" else ["c"])


async def test_a_store_that_was_away_is_told_later(node):
    await node.admin.grant_adapter("a", "letters", "b", alias="post")
    node.store.kill()
    revoked = await node.admin.revoke_tenant("a")
    assert revoked.HasField("revoked_at")
    await node.store.start()
    async with asyncio.timeout(60):
        while await node.admin.list_grants():
            pass
    with pytest.raises(AdapterNotFoundError):
        await node.used(node.holder, "post")
