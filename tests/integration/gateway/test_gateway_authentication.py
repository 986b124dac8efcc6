"""Who a caller is: only its key says so, and one answer serves every bad key."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
import pytest

from edgelora import EdgeLoraClient
from edgelora.errors import UnauthenticatedError
from edgelora.generation import Delta
from edgelora.v1 import gateway_service_pb2 as pb
from services.gateway import tenant_file
from services.gateway.tenant_registry import TenantRegistry

pytestmark = pytest.mark.integration


async def status_as(stub, *metadata: tuple[str, str | bytes]) -> str:
    """The tenant the gateway takes the call for."""
    response = await stub.GetStatus(pb.GetStatusRequest(), metadata=metadata, timeout=10)
    return response.usage.tenant_id


async def test_all_bad_credentials_get_the_same_answer_T39(gateway):
    client = await gateway.client("acme")
    await gateway.client("gone")
    await (await gateway.admin()).revoke_tenant("gone")
    stub = await gateway.stub()
    right = gateway.keys["acme"]
    bad = [
        (),
        (("authorization", ""),),
        (("authorization", right),),
        (("authorization", f"Basic {right}"),),
        (("authorization", "Bearer "),),
        (("authorization", "Bearer nonsense"),),
        (("authorization", f"Bearer el_nobody_{'0' * 64}"),),
        (("authorization", f"Bearer el_acme_{'0' * 64}"),),
        (("authorization", f"Bearer {right[:-1]}"),),
        (("authorization", f"Bearer {right}x"),),
        (("authorization", f"Bearer {right.upper()}"),),
        (("authorization", f"Bearer {gateway.keys['gone']}"),),
        (("authorization", f"Bearer {right}"),) * 2,
        (("authorization-bin", f"Bearer {right}".encode()),),
        (("x-api-key", right),),
        (("x-tenant-id", "acme"),),
    ]
    answers = set()
    for metadata in bad:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await status_as(stub, *metadata)
        trailers = {
            key: value
            for key, value in caught.value.trailing_metadata()
            if key == "grpc-status-details-bin"
        }
        answers.add((caught.value.code(), caught.value.details(), str(trailers)))
    assert len(answers) == 1
    assert answers.pop()[0] is grpc.StatusCode.UNAUTHENTICATED
    assert (await client.status()).usage.tenant_id == "acme"


async def test_no_header_but_the_key_names_the_tenant_T23(gateway):
    await gateway.client("acme")
    await gateway.client("other")
    stub = await gateway.stub()
    for spoof in (
        (("x-tenant-id", "other"),),
        (("x-tenant-id", "other"), ("x-tenant-id", "acme")),
        (("x-tenant-id-bin", b"other"),),
        (("x_tenant_id", "other"),),
        (("tenant", "other"), ("tenant-id", "other"), ("x-edgelora-tenant", "other")),
        (("x-request-id", "other"),),
    ):
        assert await status_as(stub, *gateway.authorization("acme"), *spoof) == "acme"


async def test_a_client_can_not_choose_its_request_id(gateway):
    await gateway.client("acme")
    stub = await gateway.stub()
    call = stub.Generate(
        pb.GenerateRequest(prompt="Hi"),
        metadata=(*gateway.authorization(), ("x-request-id", "chosen")),
        timeout=10,
    )
    first = await call.read()
    assert first.event.accepted.request_id not in ("", "chosen")
    call.cancel()


async def test_a_revoked_key_is_void_at_once_and_ends_its_running_stream(gateway):
    gateway.worker.script = None  # talks for ever
    client = await gateway.client("acme")
    admin = await gateway.admin()
    events = client.generate("Hi")
    async for event in events:
        if isinstance(event, Delta):
            break
    await admin.revoke_tenant("acme")
    with pytest.raises(UnauthenticatedError):
        await client.status()
    with pytest.raises(UnauthenticatedError):
        async for _ in events:
            pass
    await gateway.wait_until_idle()


async def test_revoking_ends_an_upload_and_an_installation(gateway):
    client = await gateway.client("acme")
    gateway.store.package_bytes = 10**6
    stub = await gateway.stub()
    metadata = gateway.authorization("acme")
    install = stub.InstallAdapter(
        pb.InstallAdapterRequest(package="shop/mail"), metadata=metadata, timeout=60
    )
    assert (await install.read()).progress.received_bytes == 1
    upload = stub.RegisterAdapter(metadata=metadata, timeout=60)
    files = [
        pb.AdapterUploadFile(name=name, size_bytes=1)
        for name in ("adapter_config.json", "adapter_model.safetensors")
    ]
    await upload.write(
        pb.RegisterAdapterRequest(header=pb.AdapterUploadHeader(alias="a", files=files))
    )
    while (await client.status()).usage.num_running < 2:
        pass
    await (await gateway.admin()).revoke_tenant("acme")
    for file in files:
        part = pb.AdapterUploadChunk(file_name=file.name, data=b"1")
        with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
            await upload.write(pb.RegisterAdapterRequest(chunk=part))
    with suppress(asyncio.InvalidStateError):
        await upload.done_writing()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await upload
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(grpc.aio.AioRpcError) as cut:
        while await install.read() is not grpc.aio.EOF:
            pass
    assert cut.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert await gateway.store.installs_ended.get() == "cut"
    assert not gateway.store.adapters.get("acme")


async def test_a_key_revoked_through_another_handle_is_void_at_once(gateway):
    client = await gateway.client("acme")
    await client.status()
    registry = TenantRegistry(gateway.directory / "gateway" / tenant_file.FILE_NAME)
    registry.revoke("acme")
    registry.close()
    with pytest.raises(UnauthenticatedError):
        await client.status()


async def test_keys_are_nowhere_on_disk_nor_in_the_logs(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    process = await bench.start_gateway_process()
    client = await bench.client("acme")
    async for _ in client.generate("canary-prompt"):
        pass
    async with EdgeLoraClient(bench.address("gateway"), "el_acme_" + "0" * 64) as wrong:
        with pytest.raises(UnauthenticatedError):
            await wrong.status()
    assert process.stop() == 0
    secret = bench.keys["acme"].rpartition("_")[2]
    files = [path for path in bench.directory.rglob("*") if path.is_file()]
    assert any(path.name == tenant_file.FILE_NAME for path in files)
    for path in files:
        content = path.read_bytes()
        assert secret.encode() not in content, path
        assert bytes.fromhex(secret) not in content, path
        assert b"canary-prompt" not in content, path


async def test_one_canonical_line_a_call_without_user_text(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    process = await bench.start_gateway_process()
    client = await bench.client("acme")
    events = [event async for event in client.generate("Hi")]
    process.stop()
    (line,) = [
        line for line in process.log("rpc_finished") if line["rpc"].endswith("Service/Generate")
    ]
    assert line["code"] == "OK"
    assert line["tenant_id"] == "acme"
    assert line["request_id"] == events[0].request_id
    assert (line["num_prompt_tokens"], line["num_output_tokens"]) == (7, 3)
    assert line["queue_ms"] <= line["ttft_ms"] <= line["duration_ms"]
