"""Roles, keys and quotas of tenants, as the operator sets them and the doors hold them."""

from __future__ import annotations

import asyncio
import time

import grpc
import pytest

from edgelora.client import EdgeLoraClient
from edgelora.errors import (
    EdgeLoraError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    UnauthenticatedError,
    from_rpc_error,
)
from edgelora.generation import Delta, Done, GenerationOptions
from edgelora.v1 import gateway_service_pb2 as pb

pytestmark = pytest.mark.integration

HEADER = pb.AdapterUploadHeader(
    files=[
        pb.AdapterUploadFile(name="adapter_config.json", size_bytes=1),
        pb.AdapterUploadFile(name="adapter_model.safetensors", size_bytes=1),
    ]
)
OF_AUTHORS = [
    ("RegisterAdapter", pb.RegisterAdapterRequest(header=HEADER)),
    ("InstallAdapter", pb.InstallAdapterRequest(package="usb/mail")),
    ("PinAdapter", pb.PinAdapterRequest(adapter="mail", is_pinned=True)),
    ("SetWarmUp", pb.SetWarmUpRequest(is_enabled=False)),
    ("SetWarmUp", pb.SetWarmUpRequest(forget=True)),
    ("SetAdapterAlias", pb.SetAdapterAliasRequest(name="x", digest="sha256:" + "0" * 64)),
    ("DeleteAdapter", pb.DeleteAdapterRequest(adapter="mail")),
]
OF_USERS = [
    ("GetStatus", pb.GetStatusRequest()),
    ("ListAdapters", pb.ListAdaptersRequest()),
    ("GetAdapter", pb.GetAdapterRequest(adapter="mail")),
    ("SetWarmUp", pb.SetWarmUpRequest()),
    ("ForgetSession", pb.ForgetSessionRequest(session="s")),
    ("SetStrength", pb.SetStrengthRequest(request_id="r", strength=1.0)),
]


async def call(gateway, method: str, request) -> EdgeLoraError | None:
    """What a bare call as `acme` fails with, None when it does not."""
    stub = await gateway.stub()
    given = iter([request]) if method == "RegisterAdapter" else request
    made = getattr(stub, method)(given, metadata=gateway.authorization(), timeout=20)
    try:
        if method == "InstallAdapter":
            async for _ in made:
                pass
        else:
            await made
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error)
    return None


async def test_a_user_can_use_and_change_nothing(gateway):
    client = await gateway.client("acme", role="user")
    assert isinstance([event async for event in client.generate("Hi")][-1], Done)
    for method, request in OF_USERS:
        assert not isinstance(await call(gateway, method, request), PermissionDeniedError), method
    for method, request in OF_AUTHORS:
        refused = await call(gateway, method, request)
        assert type(refused) is PermissionDeniedError, method
        assert refused.metadata == {"role": "user", "needed": "author"}


async def test_an_author_may_change_its_own_adapters(gateway):
    await gateway.client("acme")
    for method, request in OF_AUTHORS:
        assert not isinstance(await call(gateway, method, request), PermissionDeniedError), method


async def test_permission_is_asked_before_anything_is_looked_at(gateway):
    await gateway.client("acme", role="user", max_concurrent_requests=1)
    nonsense = [
        ("DeleteAdapter", pb.DeleteAdapterRequest(adapter="../../etc")),
        ("PinAdapter", pb.PinAdapterRequest()),
        ("SetAdapterAlias", pb.SetAdapterAliasRequest()),
        ("InstallAdapter", pb.InstallAdapterRequest(package="http://x")),
        ("RegisterAdapter", pb.RegisterAdapterRequest()),
    ]
    messages = {str(await call(gateway, *each)) for each in [*nonsense, *OF_AUTHORS]}
    assert len(messages) == 1


async def test_a_new_role_holds_from_the_next_request_on(gateway):
    await gateway.client("acme")
    admin = await gateway.admin()
    stored = await admin.update_tenant("acme", role="user")
    assert type(await call(gateway, *OF_AUTHORS[2])) is PermissionDeniedError
    # What was not given stays.
    assert stored.quotas.max_requests_per_minute == 600
    await admin.update_tenant("acme", role="trusted")
    assert type(await call(gateway, *OF_AUTHORS[2])) is not PermissionDeniedError


async def test_a_rotated_key_and_its_successor_work_side_by_side(gateway):
    client = await gateway.client("acme")
    admin = await gateway.admin()
    made = await admin.create_key("acme", overlap_s=3600)
    assert made.api_key.startswith("el_acme_")
    async with EdgeLoraClient(gateway.address("gateway"), made.api_key) as successor:
        await successor.status()
        await client.status()
        newest, oldest = await admin.list_keys("acme")
        assert (newest.key_id, oldest.key_id) == ("2", "1")
        assert oldest.HasField("expires_at")
        assert not newest.HasField("expires_at")
        await admin.create_key("acme", overlap_s=0)
        for void in (client, successor):
            with pytest.raises(UnauthenticatedError):
                await void.status()


async def test_a_revoked_key_ends_its_streams_and_no_others(gateway):
    gateway.worker.script = None  # talks for ever
    first = await gateway.client("acme")
    admin = await gateway.admin()
    made = await admin.create_key("acme")
    async with EdgeLoraClient(gateway.address("gateway"), made.api_key) as second:
        streams = [first.generate("Hi"), second.generate("Hi")]
        for events in streams:
            while not isinstance(await anext(events), Delta):
                pass
        await admin.revoke_key("acme", "1")
        with pytest.raises(UnauthenticatedError):
            async for _ in streams[0]:
                pass
        for _ in range(2000):  # more than a second of it
            assert isinstance(await anext(streams[1]), Delta)
        await streams[1].aclose()
        await second.status()


async def test_100_requests_at_the_limit_of_a_minute_overshoot_by_none_T40(gateway):
    client = await gateway.client(
        "acme",
        max_concurrent_requests=200,
        max_tokens_per_minute=10**9,
        max_requests_per_minute=20,
    )

    async def ask():
        try:
            return [
                event
                async for event in client.generate("Hi", options=GenerationOptions(max_tokens=1))
            ]
        except QuotaExceededError as error:
            return error

    started_s = time.monotonic()
    outcomes = await asyncio.gather(*(ask() for _ in range(100)))
    refilled = (time.monotonic() - started_s) * 20 / 60
    refusals = [outcome for outcome in outcomes if isinstance(outcome, QuotaExceededError)]
    # The bucket fills by one every three seconds meanwhile.
    assert 20 <= 100 - len(refusals) <= 20 + refilled
    assert {refusal.field for refusal in refusals} == {"max_requests_per_minute"}
    assert {refusal.metadata["max_requests_per_minute"] for refusal in refusals} == {"20"}
    assert all(0 < refusal.retry_after_s <= 3.0 for refusal in refusals)
    (total,) = await (await gateway.admin()).usage("acme")
    assert (total.num_requests, total.num_refused) == (100 - len(refusals), len(refusals))


async def test_a_lowered_quota_holds_from_the_next_request_on(gateway):
    client = await gateway.client("acme")
    admin = await gateway.admin()
    gateway.worker.hold_after = 1
    events = client.generate("Hi")
    while not isinstance(await anext(events), Delta):
        pass
    await admin.update_tenant("acme", max_concurrent_requests=1)
    with pytest.raises(QuotaExceededError):
        await anext(client.generate("Hi"))
    gateway.worker.go_on.set()
    assert isinstance([event async for event in events][-1], Done)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"max_concurrent_requests": 0}, "max_concurrent_requests"),
        ({"max_tokens_per_minute": 2**31}, "max_tokens_per_minute"),
        ({"max_requests_per_minute": 0}, "max_requests_per_minute"),
        ({"max_adapters": 2**31}, "max_adapters"),
        ({"max_adapter_bytes": 2**63}, "max_adapter_bytes"),
        ({"spiffe_id": "spiffe://home/tenant/other"}, "spiffe_id"),
        ({"spiffe_id": "https://home/tenant/acme"}, "spiffe_id"),
        ({"spiffe_id": "spiffe://home/tenant/acme?x"}, "spiffe_id"),
        ({"spiffe_id": "spiffe://Home/tenant/acme"}, "spiffe_id"),
        ({"spiffe_id": "spiffe:///tenant/acme"}, "spiffe_id"),
    ],
)
async def test_what_a_tenant_can_not_be_is_refused_by_name(gateway, change, field):
    admin = await gateway.admin()
    with pytest.raises(InvalidRequestError) as caught:
        await admin.create_tenant("acme", **change)
    assert caught.value.field == field
    await admin.create_tenant("acme")
    with pytest.raises(InvalidRequestError) as caught:
        await admin.update_tenant("acme", **change)
    assert caught.value.field == field


async def test_the_operator_is_told_of_tenants_that_are_none(gateway):
    admin = await gateway.admin()
    for ask in (
        admin.update_tenant("nobody", role="user"),
        admin.create_key("nobody"),
        admin.list_keys("nobody"),
        admin.revoke_key("nobody", "1"),
        admin.usage("nobody"),
        admin.revoke_tenant("nobody"),
        admin.grant_adapter("nobody", "x", "acme"),
    ):
        with pytest.raises(NotFoundError):
            await ask
