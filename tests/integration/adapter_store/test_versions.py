"""Lower-rank versions: linked per tenant, served in place of their original, gone with it."""

import pytest

from edgelora.adapter_format.rank_cut import cut_adapter
from edgelora.adapter_package import write_package
from edgelora.errors import (
    AdapterNotFoundError,
    EdgeLoraError,
    InvalidRequestError,
    QuotaExceededError,
)
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterState
from services.adapter_store.registry.writer import MAX_VERSIONS
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import (
    StoreClient,
    StoreProcess,
    chunk,
    eventually,
)
from tests.support.adapter_files import AdapterFiles, ranked_adapter
from tests.support.tiny_base import tiny_base

pytestmark = pytest.mark.integration

ORIGINAL = ranked_adapter(16)
UNKNOWN = "sha256:" + "f" * 64


def cut(rank, files=ORIGINAL):
    lower = cut_adapter(files.config, files.weights, rank)
    return AdapterFiles(lower.config, lower.weights)


async def register_family(client, tenant_id="a", ranks=(8, 4), alias="mail"):
    """Digests by rank."""
    original = (await client.register(tenant_id, ORIGINAL, alias=alias)).adapter.digest
    family = {16: original}
    for rank in ranks:
        response = await client.register(tenant_id, cut(rank), version_of_digest=original)
        assert response.adapter.version_of_digest == original
        family[rank] = response.adapter.digest
    return family


async def served(client, tenant_id, *selections, max_rank):
    response = await client.resolve(tenant_id, *selections, max_rank=max_rank)
    return [each.digest for each in response.adapters]


async def test_link_is_shown_and_survives_a_restart(client, store):
    family = await register_family(client)
    store.kill()
    await store.start()
    assert (await client.get("a", family[8])).version_of_digest == family[16]
    assert (await client.get("a", family[16])).version_of_digest == ""
    listed = {each.digest: each.version_of_digest for each in (await client.list("a")).adapters}
    assert listed == {family[16]: "", family[8]: family[16], family[4]: family[16]}
    # Registered again without it, the link stays.
    again = await client.register("a", cut(8))
    assert (again.is_new, again.adapter.version_of_digest) == (False, family[16])


@pytest.mark.parametrize(
    ("max_rank", "rank"), [(0, 16), (16, 16), (100, 16), (15, 8), (8, 8), (7, 4), (4, 4), (3, 16)]
)
async def test_highest_version_up_to_the_rank_stands_in(client, max_rank, rank):
    family = await register_family(client)
    response = await client.resolve("a", ("mail", 0.7), max_rank=max_rank)
    (resolved,) = response.adapters
    assert (resolved.digest, resolved.rank) == (family[rank], rank)
    assert resolved.version_of_digest == ("" if rank == 16 else family[16])
    assert (resolved.strength, resolved.alias, resolved.generation) == (0.7, "mail", 1)
    certificate = (await client.get("a", family[rank])).certificate_digest
    assert resolved.certificate_digest == certificate
    # Counted for what is served.
    for each, digest in family.items():
        usage = (await client.get("a", digest)).usage
        assert usage.num_flash_hits == (each == rank), each


async def test_version_that_is_named_is_what_was_asked_for(client):
    family = await register_family(client)
    (resolved,) = (await client.resolve("a", family[8], max_rank=8)).adapters
    assert (resolved.digest, resolved.version_of_digest) == (family[8], "")
    # Above the rank, another one of the same original will do.
    (resolved,) = (await client.resolve("a", family[8], max_rank=4)).adapters
    assert (resolved.digest, resolved.version_of_digest) == (family[4], family[8])


async def test_no_adapter_is_served_twice_in_one_request(client):
    family = await register_family(client, ranks=(4,))
    assert await served(client, "a", "mail", family[4], max_rank=4) == [family[16], family[4]]
    assert await served(client, "a", family[4], "mail", max_rank=4) == [family[4], family[16]]
    eight = (await client.register("a", cut(8), version_of_digest=family[16])).adapter.digest
    assert await served(client, "a", "mail", eight, max_rank=4) == [family[4], eight]
    with pytest.raises(InvalidRequestError, match="again"):
        await client.resolve("a", "mail", family[16], max_rank=4)


async def test_residency_and_state_are_of_what_is_served(client):
    family = await register_family(client)
    await client.report("w", family[8])
    response = await client.resolve("a", "mail", max_rank=8)
    assert response.adapters[0].state == AdapterState.ADAPTER_STATE_RESIDENT
    assert [each.num_resident for each in response.residencies] == [1]
    await client.fetch(client.ticket("a", family[8]), family[8])


async def test_link_goes_with_either_side(client):
    family = await register_family(client)
    await client.delete("a", family[4])
    assert await served(client, "a", "mail", max_rank=4) == [family[16]]
    await client.delete("a", family[16])
    (left,) = (await client.list("a")).adapters
    assert (left.digest, left.version_of_digest) == (family[8], "")
    # Nothing of the old link is left, should the digest come back.
    await client.register("a", ORIGINAL, alias="mail")
    assert await served(client, "a", "mail", max_rank=8) == [family[16]]


async def test_what_can_be_no_version_is_refused_and_not_registered(client, store):
    family = await register_family(client, ranks=(8,))
    blobs = store.blobs()
    same, higher, lower = ranked_adapter(16, seed=1), ranked_adapter(32), ranked_adapter(2)
    for files, original, words in (
        (same, family[16], "has rank 16"),
        (higher, family[16], "has rank 16"),
        (ORIGINAL, family[16], "versions of its own"),
        (lower, family[8], "lower-rank version itself"),
        (ranked_adapter(8, seed=3), family[8], "lower-rank version itself"),
    ):
        with pytest.raises(InvalidRequestError, match=words) as caught:
            await client.register("a", files, version_of_digest=original, alias="new")
        assert caught.value.field == "version_of_digest"
    root = (await client.register("a", higher)).adapter.digest
    with pytest.raises(InvalidRequestError, match="versions of its own"):
        await client.register("a", ORIGINAL, version_of_digest=root)
    await client.delete("a", root)
    assert len((await client.list("a")).adapters) == 2
    assert store.blobs() == blobs


async def test_original_is_the_tenants_own_or_unknown_T34(client):
    theirs = (await client.register("b", ORIGINAL, alias="mail")).adapter.digest
    answers = set()
    for original in (theirs, UNKNOWN, "mail", "../etc", "\n"):
        with pytest.raises(EdgeLoraError) as caught:
            await client.register("a", cut(4), version_of_digest=original)
        answers.add((type(caught.value), caught.value.message, caught.value.field))
    assert {(kind, field) for kind, _, field in answers} == {
        (AdapterNotFoundError, "version_of_digest")
    }
    assert len(answers) == 1
    assert not (await client.list("a")).adapters


async def test_matrix_of_tenants_and_their_versions_T34(client):
    """Both have the same original; each has a version of its own, and one both have."""
    a = await register_family(client, "a", ranks=(8, 4))
    b = await register_family(client, "b", ranks=(4, 2))
    assert (a[16], a[4]) == (b[16], b[4])
    expected = {("a", 8): a[8], ("a", 4): a[4], ("a", 2): a[16]}
    expected |= {("b", 8): b[4], ("b", 4): b[4], ("b", 2): b[2]}
    for (tenant_id, max_rank), digest in expected.items():
        assert await served(client, tenant_id, "mail", max_rank=max_rank) == [digest]
    for tenant_id, foreign in (("a", b[2]), ("b", a[8]), ("c", a[16]), ("c", a[4])):
        for call in (
            client.resolve(tenant_id, foreign, max_rank=1),
            client.get(tenant_id, foreign),
            client.fetch(client.ticket(tenant_id, foreign), foreign),
            client.delete(tenant_id, foreign),
            client.register(tenant_id, ranked_adapter(1), version_of_digest=foreign),
        ):
            with pytest.raises(AdapterNotFoundError):
                await call
    # b drops the link of the version both have; a's stays.
    await client.delete("b", b[4])
    assert await served(client, "a", "mail", max_rank=4) == [a[4]]
    assert await served(client, "b", "mail", max_rank=4) == [b[2]]
    await client.register("b", cut(4))
    assert (await client.get("b", b[4])).version_of_digest == ""
    assert await served(client, "b", "mail", max_rank=4) == [b[2]]
    # And without its original it has no versions, whatever the other one has.
    await client.delete("b", b[16])
    assert await served(client, "a", "mail", max_rank=4) == [a[4]]


async def test_versions_of_another_base_model_do_not_stand_in(client, store):
    family = await register_family(client, ranks=(8, 4))
    store.stop()
    store.use_base(tiny_base(digest="sha256:" + "9" * 64))
    await store.start()
    with pytest.raises(InvalidRequestError, match="another base model"):
        await client.register("a", cut(2), version_of_digest=family[16])
    await client.register("a", ORIGINAL)
    assert await served(client, "a", "mail", max_rank=8) == [family[16]]
    await client.register("a", cut(4))
    assert await served(client, "a", "mail", max_rank=8) == [family[4]]


async def test_versions_are_bounded(client):
    original = (await client.register("a", ranked_adapter(32), alias="mail")).adapter.digest
    for rank in range(1, MAX_VERSIONS + 1):
        await client.register("a", ranked_adapter(rank), version_of_digest=original)
    with pytest.raises(QuotaExceededError):
        await client.register("a", ranked_adapter(31), version_of_digest=original)
    await client.register("a", ranked_adapter(5), version_of_digest=original)
    await client.delete("a", (await client.register("a", ranked_adapter(5))).adapter.digest)
    await client.register("a", ranked_adapter(31), version_of_digest=original)


async def test_kill_between_original_and_version_leaves_a_whole_original_F03(client, store):
    original = (await client.register("a", ORIGINAL, alias="mail")).adapter.digest
    files = cut(4)

    async def half():
        header = client.header("a", files, version_of_digest=original)
        yield pb.AdapterStoreServiceRegisterAdapterRequest(header=header)
        yield chunk(pb.ADAPTER_FILE_CONFIG, files.config)
        yield chunk(pb.ADAPTER_FILE_WEIGHTS, files.weights[:100])
        await eventually(
            lambda: any((each / "weights").stat().st_size == 100 for each in store.staged())
        )
        store.kill()

    with pytest.raises(EdgeLoraError):
        await client.send(half())
    await store.start()
    assert await served(client, "a", "mail", max_rank=4) == [original]
    assert len((await client.list("a")).adapters) == 1
    # The same command again completes it.
    assert not (await client.register("a", ORIGINAL, alias="mail")).is_new
    version = await client.register("a", files, version_of_digest=original)
    assert await served(client, "a", "mail", max_rank=4) == [version.adapter.digest]


async def test_version_leaves_flash_and_comes_back_like_any_other(tmp_path):
    lower = cut(4)
    peft = tmp_path / "peft"
    peft.mkdir()
    (peft / "adapter_config.json").write_bytes(lower.config)
    (peft / "adapter_model.safetensors").write_bytes(lower.weights)
    write_package(peft, tmp_path / "site" / "small", "latest")
    remotes = tmp_path / "remotes.toml"
    remotes.write_text(f'[usb]\nkind = "directory"\npath = "{tmp_path / "site"}"\n')
    budget_bytes = len(ORIGINAL.weights) + len(lower.weights) + 2048  # for their configs
    store = StoreProcess(
        tmp_path,
        REMOTES_FILE=str(remotes),
        FLASH_BUDGET=str(budget_bytes),
        FLASH_MIN_RESIDENCY="0s",
    )
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            original = (await client.register("a", ORIGINAL, alias="mail")).adapter.digest
            await client.install("a", "usb/small")
            linked = await client.register("a", lower, version_of_digest=original)
            version = linked.adapter.digest
            other = (await client.register("a", ranked_adapter(4, seed=7))).adapter.digest
            before = await client.get("a", version)
            assert (before.is_on_flash, before.version_of_digest) == (False, original)
            await client.delete("a", other)
            (resolved,) = (await client.resolve("a", "mail", max_rank=4)).adapters
            assert (resolved.digest, resolved.version_of_digest) == (version, original)
            fetched = await client.fetch(client.ticket("a", version), version)
            assert fetched.weights == lower.weights
            after = await client.get("a", version)
            assert (after.is_on_flash, after.version_of_digest) == (True, original)
            assert after.usage.num_remote_hits == 1
    finally:
        store.close()
