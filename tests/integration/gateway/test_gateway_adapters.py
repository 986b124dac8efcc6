"""Uploads, and who may see, use, move and remove whose adapters."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from edgelora.errors import (
    AdapterNotFoundError,
    AdapterRejectedError,
    AlreadyExistsError,
    DeadlineExceededError,
    InvalidRequestError,
    ServiceUnavailableError,
    from_rpc_error,
)
from edgelora.generation import Done, UsedAdapter
from edgelora.v1 import gateway_service_pb2 as pb

pytestmark = pytest.mark.integration

CONFIG, WEIGHTS, PROBE = "adapter_config.json", "adapter_model.safetensors", "probe.jsonl"
CARD = "card.json"


@pytest.fixture
def adapter(tmp_path):
    """Two files as the client reads them; what is in them is the store's business."""
    (tmp_path / CONFIG).write_bytes(b'{"r": 8}')
    (tmp_path / WEIGHTS).write_bytes(bytes(range(256)) * 8192)
    (tmp_path / "tokenizer_config.json").write_text("{{ code }}")
    return tmp_path


def header(*files: tuple[str, int], **more) -> pb.RegisterAdapterRequest:
    return pb.RegisterAdapterRequest(
        header=pb.AdapterUploadHeader(
            files=[pb.AdapterUploadFile(name=name, size_bytes=size) for name, size in files],
            **more,
        )
    )


def chunk(name: str, data: bytes) -> pb.RegisterAdapterRequest:
    return pb.RegisterAdapterRequest(chunk=pb.AdapterUploadChunk(file_name=name, data=data))


BOTH = ((CONFIG, 4), (WEIGHTS, 6))


async def test_an_upload_arrives_whole_and_serves(gateway, adapter):
    client = await gateway.client()
    progress = []
    registered = await client.register_adapter(
        adapter,
        alias="mail",
        description="writes mail",
        on_progress=lambda sent, total: progress.append((sent, total)),
    )
    assert registered.is_new
    assert registered.alias.name == "mail"
    assert await gateway.store.uploads_ended.get() == "whole"
    size = sum((adapter / name).stat().st_size for name in (CONFIG, WEIGHTS))
    assert progress[-1] == (size, size)
    assert [sent for sent, _ in progress] == sorted({sent for sent, _ in progress})

    listed = await client.list_adapters()
    assert [entry.digest for entry in listed.adapters] == [registered.adapter.digest]
    assert listed.adapters[0].description == "writes mail"
    events = [event async for event in client.generate("Hi", adapters="mail")]
    assert events[0].adapters[0].digest == registered.adapter.digest
    assert isinstance(events[-1], Done)
    assert not (await client.register_adapter(adapter)).is_new


async def test_an_alias_moves_by_compare_and_swap(gateway, adapter):
    client = await gateway.client()
    digest = (await client.register_adapter(adapter, alias="mail")).adapter.digest
    assert (await client.set_adapter_alias("mail", digest, expected_generation=1)).generation == 2
    with pytest.raises(Exception, match="changed") as caught:
        await client.set_adapter_alias("mail", digest, expected_generation=1)
    assert caught.value.code == "ALREADY_EXISTS"
    removed = await client.delete_adapter(digest)
    assert (list(removed.removed_aliases), removed.removed_digest) == (["mail"], digest)


async def test_an_upload_replaces_only_the_generation_it_expects(gateway, adapter):
    client = await gateway.client()
    first = await client.register_adapter(adapter, alias="mail", expected_generation=0)
    (adapter / CONFIG).write_bytes(b'{"r": 4}')
    with pytest.raises(AlreadyExistsError) as caught:
        await client.register_adapter(adapter, alias="mail", expected_generation=0)
    assert caught.value.field == "expected_generation"
    second = await client.register_adapter(adapter, alias="mail", expected_generation=1)
    assert second.alias.generation == 2
    assert second.alias.digest != first.alias.digest


async def test_a_probe_goes_with_the_adapter(gateway, adapter):
    client = await gateway.client()
    await client.register_adapter(adapter)
    (adapter / PROBE).write_bytes(b'{"prompt": "a", "answer": "b"}\n')
    await client.register_adapter(adapter)
    assert gateway.store.probes == [b"", (adapter / PROBE).read_bytes()]


async def test_a_card_goes_with_the_adapter_and_a_version_with_its_original(gateway, adapter):
    client = await gateway.client()
    (adapter / CARD).write_bytes(b'{"description": "", "examples": ["Write to Anna"]}')
    original = (await client.register_adapter(adapter)).adapter.digest
    (adapter / CARD).unlink()
    (adapter / CONFIG).write_bytes(b"lower")
    version = await client.register_adapter(adapter, version_of_digest=original)
    assert [len(card) for card in gateway.store.cards] == [50, 0]
    assert version.adapter.version_of_digest == original
    found = (await client.get_adapter(original)).adapter
    assert list(found.example_prompts) == ["Write to Anna"]
    listed = {each.digest: each for each in (await client.list_adapters()).adapters}
    assert listed[version.adapter.digest].version_of_digest == original


async def test_every_answer_says_what_its_adapter_is_and_where_it_comes_from(gateway, adapter):
    client = await gateway.client()
    old = await client.register_adapter(adapter, alias="mail")
    (adapter / CONFIG).write_bytes(b'{"r": 4}')
    new = await client.register_adapter(adapter, alias="mail", replace_alias=True)
    events = [event async for event in client.generate("Hi", adapters="mail")]
    (used,) = events[0].adapters
    assert used == UsedAdapter(
        digest=new.adapter.digest,
        alias="mail",
        strength=1.0,
        generation=2,
        certificate_digest=new.adapter.certificate_digest,
        source="upload",
        parent_digest=old.adapter.digest,
    )
    assert used.certificate_digest


async def test_no_tenant_touches_or_even_sees_anothers_adapter_T34(gateway, adapter):
    owner, stranger = await gateway.client("owner"), await gateway.client("stranger")
    digest = (await owner.register_adapter(adapter, alias="mail")).adapter.digest
    absent = "sha256:" + "0" * 64

    async def use(name: str):
        await anext(stranger.generate("Hi", adapters=name))

    async def refusal(attempt) -> tuple:
        with pytest.raises(AdapterNotFoundError) as caught:
            await attempt
        return caught.value.message, caught.value.field, caught.value.metadata

    # A foreign adapter and one that never was: the same answer, whatever is tried.
    assert await refusal(use("mail")) == await refusal(use("never"))
    assert await refusal(use(digest)) == await refusal(use(absent))
    assert await refusal(stranger.delete_adapter("mail")) == await refusal(
        stranger.delete_adapter("never")
    )
    assert await refusal(stranger.delete_adapter(digest)) == await refusal(
        stranger.delete_adapter(absent)
    )
    for foreign, unknown in (("mail", "never"), (digest, absent)):
        assert await refusal(stranger.get_adapter(foreign)) == await refusal(
            stranger.get_adapter(unknown)
        )
        assert await refusal(stranger.pin_adapter(foreign)) == await refusal(
            stranger.pin_adapter(unknown)
        )
    assert await refusal(stranger.set_adapter_alias("mine", digest)) == await refusal(
        stranger.set_adapter_alias("mine", absent)
    )
    assert not (await stranger.list_adapters()).adapters
    # The same name in two namespaces is two names.
    (adapter / CONFIG).write_bytes(b'{"r": 4}')
    other = (await stranger.register_adapter(adapter, alias="mail")).adapter.digest
    assert other != digest
    await stranger.delete_adapter("mail")
    events = [event async for event in owner.generate("Hi", adapters="mail")]
    assert events[0].adapters[0].digest == digest


BAD_UPLOADS = [
    ("header", [chunk(CONFIG, b"1234")]),
    ("header", [pb.RegisterAdapterRequest()]),
    ("header.files", [header((CONFIG, 4))]),
    ("header.files", [header((WEIGHTS, 6))]),
    ("header.files", [header()]),
    ("header.files[1].name", [header((CONFIG, 4), ("frame.safetensors", 6))]),
    ("header.files[1].name", [header((CONFIG, 4), ("adapter_model.bin", 6))]),
    ("header.files[1].name", [header((CONFIG, 4), ("../" + WEIGHTS, 6))]),
    ("header.files[2].name", [header(*BOTH, (CONFIG, 4))]),
    ("header.files[0].size_bytes", [header((CONFIG, 0), (WEIGHTS, 6))]),
    ("header.files[0].size_bytes", [header((CONFIG, 2**20 + 1), (WEIGHTS, 6))]),
    ("header.files[1].size_bytes", [header((CONFIG, 4), (WEIGHTS, 2**63))]),
    ("header.files[2].size_bytes", [header(*BOTH, (PROBE, 0))]),
    ("header.files[2].size_bytes", [header(*BOTH, (PROBE, 2**16 + 1))]),
    ("header.files", [header((CONFIG, 4), (PROBE, 6))]),
    ("header.files[2].size_bytes", [header(*BOTH, (CARD, 0))]),
    ("header.files[2].size_bytes", [header(*BOTH, (CARD, 2**16 + 1))]),
    ("header.files[3].name", [header(*BOTH, (CARD, 5), (CARD, 5))]),
    ("header.version_of_digest", [header(*BOTH, version_of_digest="mail")]),
    ("header.version_of_digest", [header(*BOTH, version_of_digest="sha256:" + "F" * 64)]),
    ("header.alias", [header(*BOTH, alias="auto")]),
    ("header.alias", [header(*BOTH, alias="../mail")]),
    ("header.expected_generation", [header(*BOTH, expected_generation=1)]),
    ("header.description", [header(*BOTH, description="a" * 501)]),
    ("header.description", [header(*BOTH, description="a\0")]),
    ("chunk", [header(*BOTH), header(*BOTH)]),
    ("chunk", [header(*BOTH), pb.RegisterAdapterRequest()]),
    ("chunk.file_name", [header(*BOTH), chunk("evil.py", b"1")]),
    ("chunk.file_name", [header(*BOTH), chunk("", b"1")]),
    ("chunk.data", [header(*BOTH), chunk(CONFIG, b"")]),
    ("chunk.data", [header(*BOTH), chunk(CONFIG, b"12345")]),
    ("chunk.data", [header((CONFIG, 4), (WEIGHTS, 2**22)), chunk(WEIGHTS, b"a" * (2**20 + 1))]),
    ("chunk.data", [header(*BOTH)]),
    ("chunk.data", [header(*BOTH), chunk(CONFIG, b"1234"), chunk(WEIGHTS, b"12345")]),
    ("chunk.file_name", [header(*BOTH), chunk(PROBE, b"1")]),
    (
        "chunk.data",
        [header(*BOTH, (PROBE, 2)), chunk(CONFIG, b"1234"), chunk(WEIGHTS, b"123456")],
    ),
]


async def test_every_bad_upload_names_its_field_and_registers_nothing_A22_A23(gateway):
    client = await gateway.client()
    stub = await gateway.stub()
    for field, messages in BAD_UPLOADS:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.RegisterAdapter(iter(messages), metadata=gateway.authorization(), timeout=10)
        error = from_rpc_error(caught.value)
        assert isinstance(error, InvalidRequestError), (field, error)
        assert error.field == field, error.message
    assert not (await client.list_adapters()).adapters
    assert (await client.status()).usage.num_running == 0
    while not gateway.store.uploads_ended.empty():
        assert gateway.store.uploads_ended.get_nowait() == "cut"


async def test_a_file_missing_at_home_is_named_before_anything_is_sent_A23(gateway, tmp_path):
    client = await gateway.client()
    for present, missing in ((CONFIG, WEIGHTS), (WEIGHTS, CONFIG)):
        directory = tmp_path / present
        directory.mkdir()
        (directory / present).write_bytes(b"1")
        with pytest.raises(AdapterRejectedError, match=missing) as caught:
            await client.register_adapter(directory)
        assert caught.value.field == missing
    assert gateway.store.uploads_ended.empty()


async def test_an_uploader_that_leaves_leaves_nothing(gateway):
    client = await gateway.client()
    stub = await gateway.stub()
    upload = stub.RegisterAdapter(metadata=gateway.authorization(), timeout=30)
    await upload.write(header((CONFIG, 4), (WEIGHTS, 2**21)))
    await upload.write(chunk(CONFIG, b"1234"))
    await upload.write(chunk(WEIGHTS, b"a" * 2**20))
    upload.cancel()
    async with asyncio.timeout(5):
        assert await gateway.store.uploads_ended.get() == "cut"
    assert not (await client.list_adapters()).adapters


async def test_an_uploader_that_dawdles_is_cut_off_F23(bench):
    await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    await bench.start_gateway(CLIENT_STALL="200ms")
    client = await bench.client()
    stub = await bench.stub()
    upload = stub.RegisterAdapter(metadata=bench.authorization(), timeout=30)
    await upload.write(header(*BOTH))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await upload
    assert isinstance(from_rpc_error(caught.value), DeadlineExceededError)
    async with asyncio.timeout(5):
        assert await bench.store.uploads_ended.get() == "cut"
    assert (await client.status()).usage.num_running == 0


async def test_without_a_store_adapters_are_unavailable_and_the_base_serves(bench, adapter):
    store = await bench.start_store()
    await bench.start_worker()
    bench.start_scheduler()
    await bench.start_gateway()
    client = await bench.client()
    await store.server.stop(None)
    for attempt in (
        client.list_adapters(),
        client.register_adapter(adapter),
        anext(client.generate("Hi", adapters="mail")),
    ):
        with pytest.raises(ServiceUnavailableError) as caught:
            await attempt
        assert "store" in caught.value.message
        assert caught.value.retry_after_s is not None
    assert isinstance([event async for event in client.generate("Hi")][-1], Done)
