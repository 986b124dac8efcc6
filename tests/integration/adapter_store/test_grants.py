"""Adapters granted by the operator: used like one's own, changed by nobody but the owner."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.errors import (
    AdapterNotFoundError,
    AlreadyExistsError,
    EdgeLoraError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from edgelora.v1 import adapter_store_service_pb2 as pb
from services.chassis.channel import open_channel, translate_errors
from tests.integration.adapter_store.store_process import StoreClient
from tests.integration.adapter_store.test_library_head import operator_claim
from tests.support.adapter_files import card_bytes, good_adapter, ranked_adapter

pytestmark = pytest.mark.integration


class Operator:
    """Grants and withdraws."""

    def __init__(self, client: StoreClient) -> None:
        self._stub = client.stub

    async def grant(self, owner: str, adapter: str, tenant: str, alias: str = "", claim=None):
        request = pb.AdapterStoreServiceGrantAdapterRequest(
            claim=claim or operator_claim(),
            owner_tenant_id=owner,
            adapter=adapter,
            tenant_id=tenant,
            alias=alias,
        )
        with translate_errors():
            return (await self._stub.GrantAdapter(request, timeout=20)).grant

    async def withdraw(self, tenant: str, digest: str, claim=None) -> None:
        request = pb.AdapterStoreServiceWithdrawAdapterRequest(
            claim=claim or operator_claim(), tenant_id=tenant, digest=digest
        )
        with translate_errors():
            await self._stub.WithdrawAdapter(request, timeout=20)

    async def grants(self, tenant: str = "", claim=None):
        request = pb.AdapterStoreServiceListGrantsRequest(
            claim=claim or operator_claim(), tenant_id=tenant
        )
        with translate_errors():
            grants = (await self._stub.ListGrants(request, timeout=20)).grants
        return [(each.owner_tenant_id, each.digest, each.tenant_id, each.alias) for each in grants]


@pytest.fixture
def operator(client) -> Operator:
    return Operator(client)


async def register(client, tenant: str, seed: int, **fields) -> str:
    return (await client.register(tenant, good_adapter(seed), **fields)).adapter.digest


async def refusal(call) -> type[EdgeLoraError]:
    with pytest.raises(EdgeLoraError) as caught:
        await call
    return type(caught.value)


async def test_a_granted_adapter_is_resolved_listed_fetched_and_mixed(client, operator):
    mine = await register(client, "b", 2, alias="own")
    digest = await register(client, "a", 1, alias="secret-name", description="a's words")
    grant = await operator.grant("a", "secret-name", "b", "shared")
    assert (grant.owner_tenant_id, grant.digest, grant.tenant_id) == ("a", digest, "b")
    assert await operator.grants() == await operator.grants("b") == [("a", digest, "b", "shared")]
    assert await operator.grants("a") == []

    mixed = (await client.resolve("b", ("own", 0.5), "shared")).adapters
    assert [(each.digest, each.alias) for each in mixed] == [(mine, "own"), (digest, "shared")]
    assert (await client.resolve("b", digest)).adapters[0].digest == digest
    fetched = await client.fetch(client.ticket("b", digest), digest)
    assert fetched.weights == good_adapter(1).weights

    listed = await client.list("b")
    assert [(each.digest, each.is_granted) for each in listed.adapters] == [
        (digest, True),
        (mine, False),
    ]
    assert {alias.name: alias.digest for alias in listed.aliases} == {"own": mine, "shared": digest}
    # Nobody else got anything.
    with pytest.raises(AdapterNotFoundError):
        await client.resolve("c", digest)
    assert not (await client.list("c")).adapters


async def test_what_the_owner_says_of_it_and_who_that_is_are_not_told(client, operator):
    adapter = ranked_adapter(4, 1, card_bytes("the owner's prompt"))
    digest = (await client.register("owner-a", adapter, alias="their-name")).adapter.digest
    await operator.grant("owner-a", digest, "b", "shared")
    await client.resolve("owner-a", digest)
    found = await client.get("b", "shared")
    assert found.rank == (await client.get("owner-a", digest)).rank
    assert list(found.aliases) == ["shared"]
    assert found.lineage.source == "grant"
    assert not found.HasField("usage")
    assert not found.certificate.document
    text = str(found) + str(await client.list("b")) + str(await client.resolve("b", "shared"))
    for secret in ("owner-a", "their-name", "the owner's prompt"):
        assert secret not in text


async def test_who_holds_a_grant_can_change_nothing_of_it_T34(client, operator):
    digest = await register(client, "a", 1, alias="x")
    other = await register(client, "b", 2, alias="own")
    await operator.grant("a", "x", "b", "shared")
    for call in (
        client.delete("b", "shared"),
        client.delete("b", digest),
        client.pin("b", "shared"),
        client.set_alias("b", "mine-now", digest),
    ):
        assert await refusal(call) is PermissionDeniedError
    for call in (
        client.set_alias("b", "shared", other),
        client.register("b", good_adapter(3), alias="shared"),
        client.register("b", good_adapter(3), alias="shared", replace_alias=True),
    ):
        assert await refusal(call) is AlreadyExistsError
    version = client.register("b", good_adapter(4), version_of_digest=digest)
    assert await refusal(version) is AdapterNotFoundError
    # To hand it on, and to anybody who is no operator, it is not there.
    assert await refusal(operator.grant("b", "shared", "c", "again")) is AdapterNotFoundError
    assert await refusal(operator.grant("b", digest, "c")) is AdapterNotFoundError
    for claim in (client.claim("a"), client.claim("b"), operator_claim(life_s=-1)):
        assert await refusal(operator.grant("a", "x", "c", claim=claim)) is UnauthenticatedError
        assert await refusal(operator.withdraw("b", digest, claim)) is UnauthenticatedError
        assert await refusal(operator.grants(claim=claim)) is UnauthenticatedError
    assert (await client.resolve("a", "x")).adapters[0].digest == digest
    assert (await client.resolve("b", "shared")).adapters[0].digest == digest


async def test_a_withdrawn_grant_is_as_if_it_had_never_been_T34(client, operator):
    digest = await register(client, "a", 1, alias="x")
    await operator.grant("a", "x", "b", "shared")
    first = (await client.resolve("b", "shared")).adapters[0].generation
    ticket = client.ticket("b", digest)
    await client.report("w", digest)  # resident
    await operator.withdraw("b", digest)
    unknown = "sha256:" + "f" * 64
    answers = set()
    for reference in ("shared", digest, "nothing", unknown):
        with pytest.raises(AdapterNotFoundError) as caught:
            await client.resolve("b", reference)
        answers.add(str(caught.value))
    assert len(answers) == 1
    with pytest.raises(AdapterNotFoundError):
        await client.fetch(ticket, digest)  # the ticket outlives the grant and opens nothing
    assert not (await client.list("b")).adapters
    assert not (await client.candidates("b")).candidates
    assert await refusal(operator.withdraw("b", digest)) is NotFoundError
    assert await refusal(client.delete("b", digest)) is AdapterNotFoundError
    # The owner keeps it, and the name never has a generation twice.
    assert (await client.resolve("a", "x")).adapters[0].digest == digest
    await operator.grant("a", "x", "b", "shared")
    assert (await client.resolve("b", "shared")).adapters[0].generation > first


async def test_the_owners_deletion_ends_its_grants(client, operator, store):
    digest = await register(client, "a", 1, alias="x")
    await operator.grant("a", "x", "b", "shared")
    await operator.grant("a", "x", "c")
    await client.delete("a", "x")  # a name of the owner's is no condition
    assert (await client.resolve("b", "shared")).adapters[0].digest == digest
    await client.delete("a", digest)
    for tenant in "bc":
        with pytest.raises(AdapterNotFoundError):
            await client.resolve(tenant, digest)
    assert await operator.grants() == []
    assert store.blobs() == []
    await register(client, "a", 1, alias="x")  # back, and still withdrawn
    with pytest.raises(AdapterNotFoundError):
        await client.resolve("b", "shared")


async def test_the_router_may_choose_it_and_learns_of_every_change(client, operator):
    adapter = ranked_adapter(4, 1, card_bytes("turn on the light"))
    digest = (await client.register("a", adapter, alias="x")).adapter.digest
    before = await client.candidates("b")
    await operator.grant("a", "x", "b", "shared")
    granted = await client.candidates("b", before.version)
    assert granted.version != before.version
    (candidate,) = granted.candidates
    assert (candidate.digest, candidate.alias) == (digest, "shared")
    assert list(candidate.example_prompts) == ["turn on the light"]
    await client.register("a", ranked_adapter(4, 1, card_bytes("another prompt")))
    changed = await client.candidates("b", granted.version)
    assert list(changed.candidates[0].example_prompts) == ["another prompt"]
    await client.delete("a", digest)
    assert (await client.candidates("b", changed.version)).version != changed.version


async def test_a_grant_counts_in_no_quota_and_one_of_ones_own_is_not_needed(client, operator):
    digest = await register(client, "a", 1, alias="x")
    await operator.grant("a", "x", "b", "shared")
    assert await refusal(operator.grant("a", "x", "a")) is AlreadyExistsError
    own = await register(client, "b", 1, alias="own")
    assert own == digest
    assert await refusal(operator.grant("a", "x", "b", "other")) is AlreadyExistsError
    (listed,) = (await client.list("b")).adapters
    assert not listed.is_granted
    assert list(listed.aliases) == ["own", "shared"]
    # Without the copy of its own the grant is still there; without the grant, the copy.
    await client.delete("b", digest)
    assert (await client.resolve("b", "shared")).adapters[0].digest == digest
    await register(client, "b", 1)
    await operator.withdraw("b", digest)
    assert (await client.resolve("b", digest)).adapters[0].digest == digest


async def test_a_grant_again_may_only_change_its_name(client, operator):
    digest = await register(client, "a", 1, alias="x")
    await register(client, "c", 1)
    await operator.grant("a", "x", "b")
    await operator.grant("a", "x", "b")
    await operator.grant("a", digest, "b", "shared")
    await operator.grant("a", digest, "b", "shared")
    assert await operator.grants() == [("a", digest, "b", "shared")]
    assert await refusal(operator.grant("c", digest, "b", "shared")) is AlreadyExistsError
    await register(client, "b", 5, alias="taken")
    assert await refusal(operator.grant("a", digest, "b", "taken")) is AlreadyExistsError
    for name in ("auto", "../x", "x" * 65):
        assert await refusal(operator.grant("a", digest, "b", name)) is InvalidRequestError
    for adapter in ("nothing", "", "..", "sha256:" + "0" * 64):
        assert await refusal(operator.grant("a", adapter, "b")) is AdapterNotFoundError


async def test_pages_hold_own_and_granted_adapters_in_one_order(client, operator):
    expected = []
    for seed in range(6):
        owner = "a" if seed % 2 else "b"
        digest = await register(client, owner, seed)
        if owner == "a":
            await operator.grant("a", digest, "b", f"n{seed}")
        expected.insert(0, digest)
    seen, token = [], ""
    while True:
        page = await client.list("b", page_size=2, page_token=token)
        seen += [adapter.digest for adapter in page.adapters]
        token = page.next_page_token
        if not token:
            break
    assert seen == expected


async def test_withdrawing_races_with_resolving_and_nothing_is_seen_after_it_T34(client, operator):
    digest = await register(client, "a", 1, alias="x")
    for _ in range(5):
        await operator.grant("a", "x", "b", "shared")
        withdrawn = asyncio.Event()

        async def resolve_on(withdrawn: asyncio.Event = withdrawn) -> list[tuple[bool, bool]]:
            """Pairs: whether the withdrawal had been answered at the start, whether it resolved."""
            outcomes = []
            for _ in range(20):
                was_over = withdrawn.is_set()
                try:
                    await client.resolve("b", "shared")
                    outcomes.append((was_over, True))
                except AdapterNotFoundError:
                    outcomes.append((was_over, False))
            return outcomes

        async def withdraw(withdrawn: asyncio.Event = withdrawn) -> None:
            await operator.withdraw("b", digest)
            withdrawn.set()

        *outcomes, _ = await asyncio.gather(*(resolve_on() for _ in range(4)), withdraw())
        assert (True, True) not in {pair for each in outcomes for pair in each}


async def test_grants_outlive_the_store(client, operator, store):
    digest = await register(client, "a", 1, alias="x")
    await operator.grant("a", "x", "b", "shared")
    store.kill()
    await store.start()
    async with open_channel(store.address) as channel:
        again = StoreClient(channel)
        assert (await again.resolve("b", "shared")).adapters[0].digest == digest
