"""Resolving, naming and deleting; and one tenant can neither touch nor see another's."""

import asyncio
import math

import pytest

from edgelora.errors import (
    AdapterNotFoundError,
    AlreadyExistsError,
    EdgeLoraError,
    InvalidRequestError,
    PermissionDeniedError,
    TicketExpiredError,
    UnauthenticatedError,
)
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterState
from edgelora.v1.ticket_pb2 import Ticket
from services.chassis.sealing import Sealer
from tests.support.adapter_files import good_adapter

pytestmark = pytest.mark.integration
UNKNOWN = "sha256:" + "f" * 64


async def answer(call) -> tuple[str, str, str | None]:
    """What a caller can tell of a refusal."""
    with pytest.raises(EdgeLoraError) as caught:
        await call
    return type(caught.value).__name__, caught.value.message, caught.value.field


async def test_resolve_by_alias_and_digest_with_strength(client):
    one = (await client.register("a", good_adapter(1), alias="one")).adapter.digest
    two = (await client.register("a", good_adapter(2))).adapter.digest
    response = await client.resolve("a", ("one", 0.5), two)
    assert [(each.digest, each.strength, each.alias) for each in response.adapters] == [
        (one, 0.5, "one"),
        (two, 1.0, ""),
    ]
    assert all(each.state == AdapterState.ADAPTER_STATE_REGISTERED for each in response.adapters)
    zero = (await client.resolve("a", ("one", -0.0))).adapters[0].strength
    assert math.copysign(1.0, zero) == 1.0
    assert not (await client.resolve("a")).adapters


async def test_bad_selections_are_refused_with_the_field(client):
    digest = (await client.register("a", good_adapter(1), alias="one")).adapter.digest
    for strength in (-0.1, 2.1, math.nan, math.inf, -math.inf, 1e308):
        found = await answer(client.resolve("a", "one", ("one", strength)))
        assert found[::2] == ("InvalidRequestError", "adapters[1].strength")
    assert (await answer(client.resolve("a", "one", digest)))[2] == "adapters[1].adapter"
    assert (await answer(client.resolve("a", *["one"] * 5)))[2] == "adapters"
    assert (await answer(client.resolve("a", "")))[2] == "adapters[0].adapter"


async def test_unknown_and_foreign_adapters_get_the_same_answer_T34(client):
    theirs = (await client.register("b", good_adapter(1), alias="theirs")).adapter.digest
    references = (theirs, "theirs", UNKNOWN, "nothing", "../etc", "x" * 500, "\0")
    answers = {await answer(client.resolve("a", reference)) for reference in references}
    assert len(answers) == 1
    assert answers.pop()[0] == "AdapterNotFoundError"
    answers = {await answer(client.delete("a", reference)) for reference in references}
    assert len(answers) == 1
    answers = {await answer(client.set_alias("a", "x", digest)) for digest in (theirs, UNKNOWN)}
    assert len(answers) == 1


async def test_tenants_do_not_see_or_touch_each_other_T34(client, store):
    same = good_adapter(7)
    mine = (await client.register("a", same, alias="home")).adapter
    also = await client.register("b", same, alias="home", description="b's own")
    assert also.is_new, "another tenant's copy must not show"
    assert also.adapter.description == "b's own"
    assert (await client.list("a")).adapters[0].description == ""
    other = (await client.register("b", good_adapter(8), alias="other")).adapter
    assert [adapter.digest for adapter in (await client.list("a")).adapters] == [mine.digest]
    assert not (await client.list("c")).adapters

    for call in (
        client.resolve("a", "other"),
        client.resolve("a", other.digest),
        client.delete("a", "other"),
        client.delete("a", other.digest),
        client.set_alias("a", "steal", other.digest),
        client.fetch(client.ticket("a", other.digest), other.digest),
    ):
        with pytest.raises(AdapterNotFoundError):
            await call

    await client.delete("a", mine.digest)
    assert (await client.resolve("b", "home")).adapters[0].digest == mine.digest
    assert len(store.blobs()) == 4 - 1, "b's files are still there; both share one config"
    await client.register("a", good_adapter(9), alias="home")
    assert (await client.resolve("b", "home")).adapters[0].digest == mine.digest


async def test_deleting_removes_names_and_files_Q06(client, store):
    first = (await client.register("a", good_adapter(1), alias="one")).adapter.digest
    await client.set_alias("a", "uno", first)
    gone = await client.delete("a", "uno")
    assert (list(gone.removed_aliases), gone.removed_digest) == (["uno"], "")
    gone = await client.delete("a", first)
    assert (list(gone.removed_aliases), gone.removed_digest) == (["one"], first)
    assert store.blobs() == []
    for reference in ("one", first):
        with pytest.raises(AdapterNotFoundError):
            await client.resolve("a", reference)
    with pytest.raises(AdapterNotFoundError):
        await client.delete("a", first)


async def test_register_and_delete_again_and_again_leaves_nothing_Q06(client, store):
    for _ in range(4):
        digest = (await client.register("a", good_adapter(1), alias="x")).adapter.digest
        await client.delete("a", digest)
    assert store.blobs() == []
    assert store.staged() == []


async def test_alias_is_replaced_by_compare_and_swap(client):
    one = (await client.register("a", good_adapter(1))).adapter.digest
    two = (await client.register("a", good_adapter(2))).adapter.digest
    assert (await client.set_alias("a", "x", one, expected=0)).generation == 1
    with pytest.raises(AlreadyExistsError) as caught:
        await client.set_alias("a", "x", two, expected=0)
    assert caught.value.metadata["generation"] == "1"
    outcomes = await asyncio.gather(
        *(client.set_alias("a", "x", two, expected=1) for _ in range(8)), return_exceptions=True
    )
    assert sum(isinstance(outcome, AlreadyExistsError) for outcome in outcomes) == 7
    assert (await client.set_alias("a", "x", one)).generation == 3
    assert (await client.set_alias("a", "x", one)).generation == 3
    with pytest.raises(InvalidRequestError):
        await client.set_alias("a", "bad name", one)


async def test_fetch_needs_a_ticket_that_lists_the_digest_T24(client, store):
    files = good_adapter(1)
    digest = (await client.register("a", files)).adapter.digest
    fetched = await client.fetch(client.ticket("a", digest), digest)
    assert fetched.weights == files.weights
    assert b"base_model" in files.config
    assert b"base_model" not in fetched.config, "only what was read is kept (T38)"
    location = await client.fetch(client.ticket("a", digest), digest, shared=True)
    blobs = store.directory / "blobs"
    assert (blobs / location.config_blob).read_bytes() == fetched.config
    assert (blobs / location.weights_blob).read_bytes() == files.weights

    forged = client.ticket("a", digest)
    forged.signature = Sealer(b"x" * 32).seal(Ticket()).signature
    for ticket, error_class in (
        (client.ticket("a"), AdapterNotFoundError),
        (client.ticket("a", UNKNOWN), AdapterNotFoundError),
        (client.ticket("b", digest), AdapterNotFoundError),
        (client.ticket("a", digest, life_s=-1), TicketExpiredError),
        (client.claim("a"), UnauthenticatedError),
        (forged, UnauthenticatedError),
        (None, UnauthenticatedError),
    ):
        with pytest.raises(error_class):
            await client.fetch(ticket, digest)
    await client.delete("a", digest)
    with pytest.raises(AdapterNotFoundError):
        await client.fetch(client.ticket("a", digest), digest)


async def test_residency_follows_the_workers_reports(client):
    one = (await client.register("a", good_adapter(1), alias="one")).adapter.digest
    two = (await client.register("a", good_adapter(2), alias="two")).adapter.digest
    await client.report("w1", one)
    await client.report("w2", one, two)
    response = await client.resolve("a", "one", "two")
    assert {each.worker: each.num_resident for each in response.residencies} == {"w1": 1, "w2": 2}
    assert [each.state for each in response.adapters] == [AdapterState.ADAPTER_STATE_RESIDENT] * 2
    await client.report("w2", refused=[pb.RefusedAdapter(digest=two, reason="rank")])
    response = await client.resolve("a", "one", "two")
    assert {each.worker: each.num_resident for each in response.residencies} == {"w1": 1}
    assert response.adapters[1].state == AdapterState.ADAPTER_STATE_FAILED
    assert (await client.list("a")).adapters[1].state == AdapterState.ADAPTER_STATE_RESIDENT


async def test_stale_process_of_a_worker_can_not_report_F07(client):
    digest = (await client.register("a", good_adapter(1))).adapter.digest
    await client.report("w", incarnation=7)
    with pytest.raises(PermissionDeniedError):
        await client.report("w", digest, incarnation=6)
    assert not (await client.resolve("a", digest)).residencies
    await client.report("w", digest, incarnation=8)
    assert (await client.resolve("a", digest)).residencies


async def test_worker_learns_which_adapters_are_gone_Q06(client):
    digest = (await client.register("a", good_adapter(1))).adapter.digest
    await client.register("b", good_adapter(1))
    assert not (await client.report("w", digest)).deleted_digests
    await client.delete("a", digest)
    assert not (await client.report("w", digest)).deleted_digests, "b still has it"
    await client.delete("b", digest)
    assert list((await client.report("w", digest)).deleted_digests) == [digest]


async def test_malformed_reports_are_refused(client):
    for worker, digest in (("", UNKNOWN), ("../w", UNKNOWN), ("w", "x"), ("w", "../../etc")):
        with pytest.raises(InvalidRequestError):
            await client.report(worker, digest)


async def test_sizes_no_device_has_are_refused_and_what_is_counted_can_still_be_told(client):
    digest = (await client.register("a", good_adapter(1))).adapter.digest
    await client.fetch(client.ticket("a", digest), digest)
    huge = 2**64 - 1
    for number, fields in enumerate(
        (
            {"memory_bytes": huge},
            {"memory_budget_bytes": huge},
            {"loads": [pb.FinishedLoad(digest=digest, bytes_read=huge)] * 2},
        )
    ):
        with pytest.raises(InvalidRequestError):
            await client.report(f"w{number}", digest, sequence=1, **fields)
    await client.report("w", digest, num_slot_waits=2**32 - 1, sequence=1)
    assert (await client.tiers()).num_slot_waits == 2**32 - 1
    assert (await client.get("a", digest)).usage.flash_bytes_read == 0
