"""What each gRPC door answers to whom: a list of everything, so that nothing opens unnoticed."""

from __future__ import annotations

import asyncio
import http.client
import json

import grpc
import pytest

from edgelora.v1 import (
    adapter_store_service_pb2,
    admin_service_pb2,
    gateway_service_pb2,
    inference_service_pb2,
    monitor_service_pb2,
    scheduler_service_pb2,
)
from tests.integration.adapter_store.store_process import StoreProcess

pytestmark = pytest.mark.integration

SERVICES = {
    service.name: service
    for module in (
        adapter_store_service_pb2,
        admin_service_pb2,
        gateway_service_pb2,
        inference_service_pb2,
        monitor_service_pb2,
        scheduler_service_pb2,
    )
    for service in module.DESCRIPTOR.services_by_name.values()
}
OTHERS = (
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.channelz.v1.Channelz/GetServers",
    "/grpc.channelz.v1.Channelz/GetTopChannels",
    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus",
    "/grpc.admin.v1.Admin/X",
    "/",
    "/edgelora.v1.GatewayService/Debug",
)
OPEN_IN_THE_NODE = {
    "AdapterStoreService": {"GetTiers", "ReportResidency"},
    "SchedulerService": {"GetQueues"},
}
"""What services tell each other without a seal: numbers, and what a lease's own number opens."""


def methods(service: str) -> list[str]:
    return [f"/edgelora.v1.{service}/{method.name}" for method in SERVICES[service].methods]


async def status_of(address: str, path: str, metadata=()) -> grpc.StatusCode:
    """How a call of one empty message ends, whatever its kind is."""
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        call = channel.unary_stream(path)(b"", metadata=metadata, timeout=10)
        try:
            async for _ in call:
                pass
        except grpc.aio.AioRpcError:
            pass
        return await call.code()


async def test_tenants_reach_their_service_and_health_and_nothing_else_T20(gateway):
    await gateway.client()
    address = gateway.address("gateway")
    for metadata in ((), gateway.authorization()):
        for service in SERVICES.keys() - {"GatewayService"}:
            for path in methods(service):
                code = await status_of(address, path, metadata)
                assert code is grpc.StatusCode.UNIMPLEMENTED, path
        for path in OTHERS:
            assert await status_of(address, path, metadata) is grpc.StatusCode.UNIMPLEMENTED, path
    assert await status_of(address, "/grpc.health.v1.Health/Check") is grpc.StatusCode.OK
    for path in methods("GatewayService"):
        assert await status_of(address, path) is grpc.StatusCode.UNAUTHENTICATED, path


async def test_the_operators_door_has_no_other_service_T20(gateway):
    address = gateway.address("admin")
    for service in SERVICES.keys() - {"AdminService"}:
        for path in methods(service):
            assert await status_of(address, path) is grpc.StatusCode.UNIMPLEMENTED, path
    for path in methods("AdminService"):
        assert await status_of(address, path) is not grpc.StatusCode.UNIMPLEMENTED, path


async def test_behind_the_gateway_nobody_acts_without_a_seal_T24(bench, tmp_path):
    store = StoreProcess(tmp_path, SEAL_KEY_FILE=str(bench.directory / "seal.key"))
    try:
        await store.start()
        await bench.start_worker()
        bench.start_scheduler(STORE_ADDRESS=store.address)
        for service, address in (
            ("AdapterStoreService", store.address),
            ("SchedulerService", bench.address("scheduler")),
        ):
            for path in methods(service):
                if path.rpartition("/")[2] in OPEN_IN_THE_NODE[service]:
                    continue
                code = await status_of(address, path)
                # An upload without a header has not even shown its claim.
                is_upload = path.endswith("/RegisterAdapter")
                assert code in (
                    grpc.StatusCode.UNAUTHENTICATED,
                    *((grpc.StatusCode.INVALID_ARGUMENT,) if is_upload else ()),
                ), path
    finally:
        store.close()


async def test_nothing_but_the_key_names_the_tenant_over_http_T23(gateway):
    await gateway.client("acme")
    await gateway.client("other")

    def ask(path: str, *headers: tuple[str, str]) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=20)
        body = json.dumps({"model": "stand-in", "messages": [{"role": "user", "content": "Hi"}]})
        connection.putrequest("POST", path)
        for name, value in (
            ("authorization", f"Bearer {gateway.keys['acme']}"),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            *headers,
        ):
            connection.putheader(name, value)
        connection.endheaders(body.encode())
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    path = "/v1/chat/completions"
    spoofs = (
        (path, ("x-tenant-id", "other")),
        (path, ("X-TENANT-ID", "other"), ("x-tenant-id", "acme")),
        (path, ("x_tenant_id", "other")),
        (path, ("edgelora.certificate_uris", "spiffe://home/tenant/other")),
        (f"{path}?tenant=other&tenant_id=other&x-tenant-id=other",),
    )
    for spoof in spoofs:
        assert await asyncio.to_thread(ask, *spoof) == 200
    totals = await (await gateway.admin()).usage()
    assert [(total.tenant_id, total.num_requests) for total in totals] == [("acme", len(spoofs))]
