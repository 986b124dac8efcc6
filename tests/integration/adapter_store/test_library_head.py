"""What the operator sees of the library: contents of all tenants, the most used first."""

from __future__ import annotations

import pytest

from edgelora.errors import InvalidRequestError, UnauthenticatedError
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.ticket_pb2 import OperatorClaim
from services.chassis.channel import translate_errors
from services.chassis.claims import seal_operator_claim
from services.chassis.sealing import Sealer, boot_clock_s
from tests.integration.adapter_store.store_process import SEAL_KEY
from tests.support.adapter_files import good_adapter

pytestmark = pytest.mark.integration


def operator_claim(key: bytes = SEAL_KEY, life_s: float = 60.0):
    claim = OperatorClaim(expires_at_boot_s=boot_clock_s() + life_s, request_id="r1")
    return seal_operator_claim(Sealer(key), claim)


async def library(client, **request) -> pb.ListLibraryResponse:
    with translate_errors():
        return await client.stub.ListLibrary(
            pb.ListLibraryRequest(**{"claim": operator_claim(), **request}), timeout=20
        )


async def test_the_most_used_come_first_and_contents_once(client):
    digests = [
        (await client.register("a", good_adapter(seed), alias=f"n{seed}")).adapter.digest
        for seed in range(3)
    ]
    await client.register("b", good_adapter(2), alias="mine")
    for _ in range(2):
        await client.resolve("b", "mine")
    await client.resolve("a", "n1")

    found = await library(client)
    assert found.num_adapters == 4
    assert [entry.digest for entry in found.entries] == [digests[2], digests[1], digests[0]]
    first = found.entries[0]
    assert (list(first.names), first.num_tenants) == (["a/n2", "b/mine"], 2)
    assert first.adapter.rank == (await client.list("a")).adapters[0].rank
    assert not first.adapter.aliases
    assert [entry.digest for entry in (await library(client, max_entries=1)).entries] == digests[2:]

    await client.delete("a", digests[2])
    await client.delete("b", digests[2])
    assert [entry.digest for entry in (await library(client)).entries] == [digests[1], digests[0]]


async def test_only_the_operator_may_ask_T24(client):
    for claim in (
        client.claim("a"),
        operator_claim(b"another key of 32 bytes or more!"),
        operator_claim(life_s=-1.0),
        operator_claim(life_s=float("nan")),
        None,
    ):
        with pytest.raises(UnauthenticatedError):
            await library(client, claim=claim)
    with pytest.raises(InvalidRequestError):
        await library(client, max_entries=257)
