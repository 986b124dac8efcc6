"""What the router may choose among: the tenant's own, and told again only when it changed."""

import sqlite3
from contextlib import closing

import pytest

from edgelora.errors import InvalidRequestError, UnauthenticatedError
from edgelora.v1 import adapter_store_service_pb2 as pb
from services.adapter_store.candidates import MAX_CANDIDATES
from services.adapter_store.flash.storage import REGISTRY_FILE
from services.chassis.channel import MAX_MESSAGE_BYTES, translate_errors
from services.chassis.claims import seal_claim
from services.chassis.sealing import Sealer, boot_clock_s
from tests.support.adapter_files import card_bytes, good_adapter, ranked_adapter
from tests.support.tiny_base import tiny_base

pytestmark = pytest.mark.integration


async def register(client, tenant_id, seed, *, card=b"", **fields):
    response = await client.register(tenant_id, ranked_adapter(4, seed, card), **fields)
    return response.adapter.digest


async def test_candidates_have_an_alias_or_a_card_newest_first(client):
    mail = await register(client, "a", 1, alias="mail", description="Writes.")
    await client.set_alias("a", "letters", mail)
    await register(client, "a", 2)  # neither a name nor a card
    carded = await register(client, "a", 3, card=card_bytes("Cook", "Bake", description="Cooks."))
    lower = await client.register("a", ranked_adapter(2), version_of_digest=mail, alias="small")
    found = (await client.candidates("a")).candidates
    assert [each.digest for each in found] == [carded, mail]
    assert lower.adapter.digest not in [each.digest for each in found]
    assert found[0] == pb.RouteCandidate(
        digest=carded, lowest_rank=4, description="Cooks.", example_prompts=["Cook", "Bake"]
    )
    assert found[1] == pb.RouteCandidate(
        digest=mail, alias="letters", lowest_rank=2, description="Writes."
    )


async def test_lowest_rank_is_of_the_smallest_version_for_this_base_model_T34(client, store):
    async def lowest_rank(tenant_id):
        (found,) = (await client.candidates(tenant_id)).candidates
        return found.lowest_rank

    big = (await client.register("a", ranked_adapter(8), alias="big")).adapter.digest
    assert await lowest_rank("a") == 8
    four = await client.register("a", ranked_adapter(4), version_of_digest=big)
    await client.register("a", ranked_adapter(2), version_of_digest=big)
    assert await lowest_rank("a") == 2
    await client.register("b", ranked_adapter(8), alias="big")
    assert await lowest_rank("b") == 8, "versions are each tenant's own"
    store.kill()
    store.use_base(tiny_base("sha256:" + "9" * 64))
    await store.start()
    for rank, fields in ((8, {}), (4, {"version_of_digest": big})):
        await client.register("a", ranked_adapter(rank), **fields)
    assert await lowest_rank("a") == 4
    await client.delete("a", four.adapter.digest)
    assert await lowest_rank("a") == 8


async def test_only_what_changed_is_told_again(client):
    empty = await client.candidates("a")
    assert (list(empty.candidates), bool(empty.version)) == ([], True)
    versions = [empty.version]

    async def assert_changed():
        known = await client.candidates("a", versions[-1])
        assert known.version not in versions
        fresh = await client.candidates("a")
        assert known == fresh
        again = await client.candidates("a", known.version)
        assert (again.version, list(again.candidates)) == (known.version, [])
        versions.append(known.version)

    mail = await register(client, "a", 1, alias="mail")
    await assert_changed()
    await client.set_alias("a", "post", mail)
    await assert_changed()
    await register(client, "a", 1, card=card_bytes("Write"))
    await assert_changed()
    await register(client, "a", 1, card=card_bytes("Write", "Send"))
    await assert_changed()
    small = await register(client, "a", 2, alias="small")
    await assert_changed()
    await client.register("a", ranked_adapter(8), alias="big")
    await assert_changed()
    big = (await client.resolve("a", "big")).adapters[0].digest
    await client.register("a", ranked_adapter(4, 2), version_of_digest=big)
    await assert_changed()
    await client.delete("a", big)  # the version is a candidate of its own again
    await assert_changed()
    assert small in [each.digest for each in (await client.candidates("a")).candidates]
    await client.delete("a", "post")
    await assert_changed()
    await client.delete("a", mail)
    await assert_changed()

    for call in (
        client.resolve("a", "small"),
        client.pin("a", "small"),
        client.report("w", small),
        register(client, "b", 3, alias="mail"),
        register(client, "b", 2, alias="small"),
        client.delete("b", "mail"),
    ):
        await call
        assert (await client.candidates("a")).version == versions[-1]


async def test_residency_is_told_each_time_and_without_redis(client):
    mail = await register(client, "a", 1, alias="mail")
    other = await register(client, "a", 2)
    version = (await client.candidates("a")).version
    await client.report("w1", mail, other)
    await client.report("w2", mail)
    assert list((await client.candidates("a", version)).resident_digests) == [mail]
    await client.report("w1")
    loading = pb.ReportResidencyRequest(
        worker="w2", incarnation=1, adapters=[pb.ResidentAdapter(digest=mail, is_loading=True)]
    )
    await client.stub.ReportResidency(loading, timeout=20)
    known = await client.candidates("a", version)
    assert (known.version, list(known.resident_digests)) == (version, [])


async def test_candidates_are_those_of_the_claim_T34(client):
    mine = await register(client, "a", 1, alias="mail", card=card_bytes("Write"))
    theirs = await register(client, "b", 2, alias="theirs", card=card_bytes("Secret"))
    await client.report("w", mine, theirs)
    a, b, c = [await client.candidates(tenant_id) for tenant_id in "abc"]
    assert [each.digest for each in a.candidates] == list(a.resident_digests) == [mine]
    assert [each.digest for each in b.candidates] == list(b.resident_digests) == [theirs]
    assert not c.candidates
    assert not c.resident_digests
    # Another tenant's version is worth no more than none.
    crossed = await client.candidates("a", b.version)
    assert [each.digest for each in crossed.candidates] in ([mine], [])
    assert b"Secret" not in crossed.SerializeToString()
    assert theirs not in crossed.resident_digests


async def test_candidates_need_a_valid_claim_T24(client):
    forged = seal_claim(
        Sealer(b"x" * 32),
        tenant_id="a",
        request_id="r",
        expires_at_boot_s=boot_clock_s() + 60,
    )
    for claim in (None, forged, client.ticket("a"), client.claim("a", life_s=-1)):
        with pytest.raises(UnauthenticatedError), translate_errors():
            await client.stub.ListCandidates(pb.ListCandidatesRequest(claim=claim), timeout=20)


async def test_restart_is_another_version_and_the_same_candidates(client, store):
    mail = await register(client, "a", 1, alias="mail", card=card_bytes("Write"))
    before = await client.candidates("a")
    store.kill()
    await store.start()
    after = await client.candidates("a", before.version)
    assert after.version != before.version
    assert [each.digest for each in after.candidates] == [mail]
    store.stop()
    store.use_base(tiny_base(digest="sha256:" + "9" * 64))
    await store.start()
    # What can not be resolved is no candidate, until somebody registers it again.
    empty = await client.candidates("a", after.version)
    assert (list(empty.candidates), empty.version != after.version) == ([], True)
    await register(client, "b", 1)
    back = await client.candidates("a", empty.version)
    assert [each.digest for each in back.candidates] == [mail]


async def test_answer_fits_into_a_message_whatever_the_cards_hold(client, store):
    """Rows as 300 registrations would leave them, with the largest cards there can be."""
    digest = await register(client, "a", 1, card=card_bytes(*["é" * 499] * 64))
    store.stop()
    with closing(sqlite3.connect(store.directory / REGISTRY_FILE)) as registry:
        for number in range(299):
            for table in ("contents", "adapters", "cards"):
                columns = [row[1] for row in registry.execute(f"PRAGMA table_info({table})")]
                values = ", ".join(
                    {"digest": "?", "registered_at": "registered_at - 1 - ?2"}.get(each, each)
                    for each in columns
                )
                registry.execute(
                    f"INSERT INTO {table} SELECT {values} FROM {table} "
                    f"WHERE digest = ?3 AND ?2 >= 0",
                    (f"sha256:{number:064x}", number, digest),
                )
        registry.commit()
    await store.start()
    response = await client.candidates("a")
    assert len(response.candidates) == MAX_CANDIDATES
    assert response.candidates[0].digest == digest
    assert response.ByteSize() < MAX_MESSAGE_BYTES
    counts = {len(each.example_prompts) for each in response.candidates}
    assert counts == {(2 << 20) // MAX_CANDIDATES // (2 * 499)}, "each has an equal share"


async def test_auto_is_no_name(client, store):
    digest = (await client.register("a", good_adapter(1), alias="mail")).adapter.digest
    for call in (
        client.register("a", good_adapter(2), alias="auto"),
        client.set_alias("a", "auto", digest),
    ):
        with pytest.raises(InvalidRequestError, match="router") as caught:
            await call
        assert caught.value.field == "alias"
    with pytest.raises(InvalidRequestError, match="router") as caught:
        await client.resolve("a", "mail", "auto")
    assert caught.value.field == "adapters[1].adapter"
    assert (await client.set_alias("a", "Auto", digest)).generation == 1


async def test_alias_called_auto_from_before_is_listed_and_can_only_go(client, store):
    digest = (await client.register("a", good_adapter(1), alias="mail")).adapter.digest
    store.stop()
    with closing(sqlite3.connect(store.directory / REGISTRY_FILE)) as registry:
        registry.execute("UPDATE aliases SET name = 'auto'")
        registry.commit()
    await store.start()
    assert [alias.name for alias in (await client.list("a")).aliases] == ["auto"]
    assert (await client.get("a", "auto")).digest == digest
    assert not (await client.candidates("a")).candidates, "it has no name that counts"
    with pytest.raises(InvalidRequestError):
        await client.resolve("a", "auto")
    with pytest.raises(InvalidRequestError):
        await client.set_alias("a", "auto", digest, 1)
    await client.set_alias("a", "mail", digest)
    assert (await client.candidates("a")).candidates[0].alias == "mail"
    assert list((await client.delete("a", "auto")).removed_aliases) == ["auto"]
