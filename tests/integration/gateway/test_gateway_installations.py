"""Packages from a remote: progress, the result, and every way an installation may end."""

from __future__ import annotations

import asyncio
from contextlib import closing

import grpc
import pytest

from edgelora.errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    ServiceUnavailableError,
    UnauthenticatedError,
    from_rpc_error,
)
from edgelora.generation import Done
from edgelora.v1 import gateway_service_pb2 as pb
from services.chassis.claims import seal_claim
from services.chassis.sealing import boot_clock_s
from services.gateway.authentication import Caller
from services.gateway.installation import Installations
from services.gateway.quota import Quota
from services.gateway.quota_ledger import QuotaLedger
from services.gateway.roles import Role
from services.gateway.tenant import Tenant, TenantQuotas
from services.gateway.upstream import Upstream

pytestmark = pytest.mark.integration

CANARY = "zebra"


async def start_held(gateway, **limits: int):
    """A tenant and the open call of its installation, which never ends by itself."""
    client = await gateway.client(**limits)
    gateway.store.hold_after = 1
    stub = await gateway.stub()
    call = stub.InstallAdapter(
        pb.InstallAdapterRequest(package="shop/mail"), metadata=gateway.authorization(), timeout=60
    )
    assert (await call.read()).progress.received_bytes == 1
    return client, call


async def test_a_package_comes_with_progress_and_serves(gateway):
    client = await gateway.client()
    progress = []
    registered = await client.install_adapter(
        "shop/team/mail:v2",
        alias="mail",
        description="writes mail",
        on_progress=lambda received, total: progress.append((received, total)),
    )
    assert progress == [(1, 3), (2, 3), (3, 3)]
    assert registered.is_new
    assert (registered.alias.name, registered.alias.generation) == ("mail", 1)
    asked = gateway.store.installs.get_nowait()
    assert (asked.package, asked.description) == ("shop/team/mail:v2", "writes mail")
    assert not asked.HasField("expected_generation")
    events = [event async for event in client.generate("Hi", adapters="mail")]
    assert events[0].adapters[0].source == "shop/team/mail:v2"
    assert isinstance(events[-1], Done)
    assert (await client.status()).usage.num_running == 0


async def test_an_installation_replaces_only_the_generation_it_expects(gateway):
    client = await gateway.client()
    await client.install_adapter("shop/a", alias="mail", expected_generation=0)
    with pytest.raises(AlreadyExistsError) as caught:
        await client.install_adapter("shop/b", alias="mail", expected_generation=0)
    assert caught.value.field == "expected_generation"
    swapped = await client.install_adapter("shop/b", alias="mail", expected_generation=1)
    assert swapped.alias.generation == 2


async def test_what_the_store_refuses_is_the_clients_own_error(gateway):
    client = await gateway.client()
    gateway.store.install_failure = NotFoundError("there is no such remote", field="package")
    with pytest.raises(NotFoundError, match="no such remote") as caught:
        await client.install_adapter("nowhere/mail")
    assert caught.value.field == "package"
    # A remote that is down is not a store that is down.
    gateway.store.install_failure = ServiceUnavailableError(
        "the remote can not be reached", metadata={"remote": "unreachable"}
    )
    with pytest.raises(ServiceUnavailableError, match="the remote can not be reached"):
        await client.install_adapter("shop/mail")
    assert (await client.status()).usage.num_running == 0


BAD_PACKAGES = [
    "",
    CANARY,
    f"{CANARY}/",
    f"/{CANARY}",
    f"{CANARY}//x",
    f"../{CANARY}",
    f"{CANARY}/../x",
    f"{CANARY}/.x",
    f"https://{CANARY}/x",
    f"{CANARY}/x:",
    f"{CANARY}/x@sha256:12",
    f"{CANARY}/x:a@sha256:" + "a" * 64,
    f"{CANARY}/x y",
    f"{CANARY}/x\n",
    f"{CANARY}/x?y=1",
    f"{CANARY}/%2e%2e",
    f"user:pass@{CANARY}/x",
    f"{CANARY}/" + "x" * 512,
]


async def test_every_bad_installation_names_its_field_and_reaches_no_store(gateway):
    await gateway.client()
    stub = await gateway.stub()
    good = {"package": "shop/mail"}
    cases = [
        *(("package", {"package": package}) for package in BAD_PACKAGES),
        ("alias", {**good, "alias": f"../{CANARY}"}),
        ("description", {**good, "description": CANARY * 101}),
        ("description", {**good, "description": "a\0"}),
        ("expected_generation", {**good, "expected_generation": 3}),
    ]
    for field, values in cases:
        call = stub.InstallAdapter(
            pb.InstallAdapterRequest(**values), metadata=gateway.authorization(), timeout=10
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        error = from_rpc_error(caught.value)
        assert isinstance(error, InvalidRequestError), values
        assert error.field == field
        assert CANARY not in error.message
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.InstallAdapter(pb.InstallAdapterRequest(**good), timeout=10).read()
    assert isinstance(from_rpc_error(caught.value), UnauthenticatedError)
    assert gateway.store.installs.empty()


async def test_leaving_ends_it_at_the_store_too(gateway):
    client, call = await start_held(gateway)
    assert (await client.status()).usage.num_running == 1
    call.cancel()
    async with asyncio.timeout(5):
        assert await gateway.store.installs_ended.get() == "cut"
    while (await client.status()).usage.num_running:
        pass
    assert not (await client.list_adapters()).adapters


async def test_it_counts_as_one_of_the_running_requests(gateway):
    client, call = await start_held(gateway, max_concurrent_requests=1)
    with pytest.raises(QuotaExceededError):
        await client.install_adapter("shop/other")
    call.cancel()


async def test_a_deadline_of_the_client_or_of_the_gateway_ends_it(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    # A package may take longer than any other call.
    await bench.start_gateway(MAX_DEADLINE="100ms", INSTALL_DEADLINE="400ms")
    client = await bench.client()
    bench.store.hold_after = 1
    loop = asyncio.get_running_loop()
    for timeout_s, at_least_s in ((0.2, 0.0), (60.0, 0.4)):
        began_s = loop.time()
        with pytest.raises(DeadlineExceededError):
            await client.install_adapter("shop/mail", timeout_s=timeout_s)
        assert loop.time() - began_s >= at_least_s
        assert await bench.store.installs_ended.get() == "cut"


async def test_a_client_that_reads_nothing_loses_its_call(gateway):
    await gateway.client()
    gateway.store.package_bytes, gateway.store.hold_after = 1000, 500
    tenant = Tenant(
        tenant_id="acme",
        role=Role.AUTHOR,
        quotas=TenantQuotas(max_concurrent_requests=1),
        spiffe_id=None,
        created_at_s=0.0,
        revoked_at_s=None,
    )
    claim = seal_claim(
        gateway.sealer,
        tenant_id="acme",
        request_id="r",
        expires_at_boot_s=boot_clock_s() + 60,
    )
    with closing(QuotaLedger(gateway.directory / "quota.sqlite")) as ledger:
        quota = Quota(ledger)
        async with Upstream(scheduler="", store=gateway.address("store"), monitor="") as upstream:
            installations = Installations(upstream, quota, stall_s=0.1)
            # Nobody reads its events.
            installations.start(
                Caller(tenant=tenant, key_id="1", spiffe_id=None, request_id="r", claim=claim),
                pb.InstallAdapterRequest(package="shop/mail"),
                budget_s=60.0,
            )
            assert quota.num_running("acme") == 1
            await installations.drain()
            assert await gateway.store.installs_ended.get() == "cut"
            assert quota.num_running("acme") == 0


async def test_without_a_store_it_is_unavailable(bench):
    store = await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    await bench.start_gateway()
    client = await bench.client()
    await store.server.stop(None)
    with pytest.raises(ServiceUnavailableError, match="store"):
        await client.install_adapter("shop/mail")


async def test_a_store_that_dies_meanwhile_ends_it_in_a_clear_error(bench):
    store = await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    await bench.start_gateway()
    client, call = await start_held(bench)
    await store.server.stop(None)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert isinstance(from_rpc_error(caught.value), ServiceUnavailableError)
    assert (await client.status()).usage.num_running == 0
