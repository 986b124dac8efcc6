"""Health that tells the truth, the two doors, and an orderly stop."""

from __future__ import annotations

import asyncio
import os
import stat

import pytest
from grpc_health.v1 import health_pb2

from edgelora.errors import AlreadyExistsError, InvalidRequestError, NotFoundError
from edgelora.generation import Delta, Done
from edgelora.v1.monitor_service_pb2 import DeviceSnapshot, GetSnapshotResponse
from edgelora.v1.monitor_service_pb2_grpc import (
    MonitorServiceServicer,
    add_MonitorServiceServicer_to_server,
)
from services.chassis.server import ServiceHost

pytestmark = pytest.mark.integration

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def test_health_follows_each_service_a_token_needs_within_2_s_I6(bench):
    store = await bench.start_store()
    worker = bench.start_worker_process(0)
    bench.start_scheduler()
    await bench.start_gateway(HEALTH_INTERVAL="500ms")  # the default

    async with asyncio.timeout(2):
        worker.kill()
        await bench.wait_for_health(NOT_SERVING)
    await bench.start_worker()
    async with asyncio.timeout(4):  # the channel's longest pause, then the next look
        await bench.wait_for_health(SERVING)

    async with asyncio.timeout(2):
        bench.scheduler.pause()  # hangs, which no connection tells
        await bench.wait_for_health(NOT_SERVING)
    bench.scheduler.resume()
    async with asyncio.timeout(2):
        await bench.wait_for_health(SERVING)

    async with asyncio.timeout(2):
        await store.set_ready(False)
        await bench.wait_for_health(NOT_SERVING)


async def test_status_tells_model_services_queues_and_device(gateway):
    class StandinMonitor(MonitorServiceServicer):
        async def GetSnapshot(self, request, context):
            return GetSnapshotResponse(snapshot=DeviceSnapshot(num_cores=2))

    client = await gateway.client("acme", max_concurrent_requests=3)
    status = await client.status()
    assert (status.model, status.max_context_tokens) == ("stand-in", 2048)
    assert {service.name: service.is_ready for service in status.services} == {
        "scheduler": True,
        "adapter_store": True,
        "inference": True,
        "monitor": False,
    }
    assert len(status.queues) == 3
    assert not status.HasField("device")
    assert status.usage.max_concurrent_requests == 3

    host = ServiceHost([gateway.address("monitor")])
    host.add(add_MonitorServiceServicer_to_server, StandinMonitor(), "edgelora.v1.MonitorService")
    async with host.serving():
        await host.set_ready(True)
        while not (status := await client.status()).HasField("device"):
            pass
    assert status.device.num_cores == 2


async def test_the_operator_makes_lists_and_revokes_tenants(gateway):
    admin = await gateway.admin()
    created = await admin.create_tenant("b", max_concurrent_requests=2, max_tokens_per_minute=500)
    await admin.create_tenant("a")
    assert created.api_key.startswith("el_b_")
    tenants = await admin.list_tenants()
    assert [tenant.tenant_id for tenant in tenants] == ["a", "b"]
    assert (tenants[0].max_concurrent_requests, tenants[0].max_tokens_per_minute) == (8, 60_000)
    assert (tenants[1].max_concurrent_requests, tenants[1].max_tokens_per_minute) == (2, 500)
    revoked = await admin.revoke_tenant("b")
    assert revoked.HasField("revoked_at")
    assert await admin.revoke_tenant("b") == revoked
    with pytest.raises(AlreadyExistsError) as taken:
        await admin.create_tenant("b")
    assert taken.value.field == "tenant_id"
    with pytest.raises(NotFoundError):
        await admin.revoke_tenant("c")
    for bad in ("", "a b", "a" * 65, "../a", "a\0"):
        with pytest.raises(InvalidRequestError) as invalid:
            await admin.create_tenant(bad)
        assert invalid.value.field == "tenant_id"
    for name in ("max_concurrent_requests", "max_tokens_per_minute"):
        for value in (0, 2**31):
            with pytest.raises(InvalidRequestError) as invalid:
                await admin.create_tenant("c", **{name: value})
            assert invalid.value.field == name


async def test_the_process_keeps_its_sockets_private_and_stops_in_order_F27(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    process = await bench.start_gateway_process()
    for name in ("gateway.sock", "admin.sock", "gateway"):
        assert stat.S_IMODE(os.stat(bench.directory / name).st_mode) & 0o077 == 0, name

    bench.worker.hold_after = 1
    client = await bench.client()
    events = client.generate("Hi")
    async for event in events:
        if isinstance(event, Delta):
            break
    async with bench.health_watch() as statuses:
        assert await anext(statuses) == SERVING
        process.process.terminate()
        assert await anext(statuses) == NOT_SERVING
    bench.worker.go_on.set()
    rest = [event async for event in events]
    assert isinstance(rest[-1], Done)  # a running stream is allowed to finish
    assert await asyncio.to_thread(process.process.wait, 10) == 0
    assert process.errors() == ""
    await bench.wait_until_idle()
