"""The store dies, files are torn, the registry is damaged: whole or absent, and said so."""

import asyncio
import sqlite3

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from edgelora.errors import AdapterNotFoundError, DataCorruptError, EdgeLoraError
from edgelora.v1 import adapter_store_service_pb2 as pb
from services.adapter_store.flash.storage import open_storage
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import (
    StoreProcess,
    chunk,
    eventually,
)
from tests.support.adapter_files import good_adapter

pytestmark = pytest.mark.integration


async def test_kill_mid_upload_leaves_nothing_visible_F03(client, store):
    kept = (await client.register("a", good_adapter(1), alias="kept")).adapter.digest
    files = good_adapter(2)

    async def half():
        yield pb.AdapterStoreServiceRegisterAdapterRequest(header=client.header("a", files))
        yield chunk(pb.ADAPTER_FILE_CONFIG, files.config)
        yield chunk(pb.ADAPTER_FILE_WEIGHTS, files.weights[:1000])
        await asyncio.Event().wait()

    call = asyncio.ensure_future(client.send(half()))
    await eventually(
        lambda: any((upload / "weights").stat().st_size == 1000 for upload in store.staged())
    )
    store.kill()
    with pytest.raises(EdgeLoraError):
        await call
    assert store.staged() != []

    await store.start()
    assert store.staged() == []
    assert len(store.blobs()) == 2
    assert [adapter.digest for adapter in (await client.list("a")).adapters] == [kept]
    assert (await client.resolve("a", "kept")).adapters[0].digest == kept
    assert (await client.register("a", files)).is_new


async def test_kill_at_any_moment_of_many_uploads_leaves_each_whole_or_absent_F14(client, store):
    answered: list[str] = []

    async def upload(seed: int) -> None:
        response = await client.register("a", good_adapter(seed))
        answered.append(response.adapter.digest)

    uploads = [asyncio.ensure_future(upload(seed)) for seed in range(6)]
    await eventually(lambda: len(answered) >= 2)
    store.kill()
    await asyncio.gather(*uploads, return_exceptions=True)

    await store.start()
    listed = {adapter.digest for adapter in (await client.list("a")).adapters}
    assert set(answered) <= listed, "what was acknowledged is there"
    for digest in listed:
        await client.fetch(client.ticket("a", digest), digest)
    assert len(store.blobs()) == len(listed) + 1, "one config, and the weights of each"


async def test_blob_without_a_row_is_swept_at_the_start(client, store):
    await client.register("a", good_adapter(1))
    assert store.stop() == 0
    orphan = store.directory / "blobs" / ("0" * 64)
    orphan.write_bytes(b"x")
    (store.directory / "blobs" / "not-a-blob").write_bytes(b"x")
    await store.start()
    assert not orphan.exists()
    assert len(store.blobs()) == 2


async def test_torn_adapter_is_detected_before_it_is_handed_out_F13(client, store):
    kept = (await client.register("a", good_adapter(0), alias="mail")).adapter.digest
    whole_blobs = {path.name for path in store.blobs()}
    digest = (
        await client.register("a", good_adapter(1), alias="mail", replace_alias=True)
    ).adapter.digest
    ticket = client.ticket("a", digest)
    (blob,) = [path for path in store.blobs() if path.name not in whole_blobs]
    whole = blob.read_bytes()
    damages = [whole[: len(whole) * part // 64] for part in range(64)]
    for part in range(256):
        position = len(whole) * part // 256
        flipped = bytes([whole[position] ^ 1 << part % 8])
        damages.append(whole[:position] + flipped + whole[position + 1 :])
    damages.append(whole + b"\0")
    blob.chmod(0o600)
    for damage in damages:
        blob.write_bytes(damage)
        with pytest.raises(DataCorruptError) as caught:
            await client.fetch(ticket, digest, shared=True)
        assert "checksum" in caught.value.message
    with pytest.raises(DataCorruptError):
        await client.fetch(ticket, digest)
    # The one before goes on being served, and the alias can go back to it.
    before = await client.fetch(client.ticket("a", kept), kept)
    assert before.weights == good_adapter(0).weights
    await client.set_alias("a", "mail", kept)
    blob.unlink()
    with pytest.raises(DataCorruptError):
        await client.fetch(ticket, digest)
    # Registering it again repairs it.
    assert not (await client.register("a", good_adapter(1))).is_new
    assert (await client.fetch(ticket, digest)).weights == whole


async def test_two_blobs_that_trade_places_are_detected_F13(client, store):
    digests = [(await client.register("a", good_adapter(seed))).adapter.digest for seed in range(2)]
    one, two = sorted(store.blobs(), key=lambda path: path.stat().st_size)[-2:]
    one.rename(one.with_name("aside"))
    two.rename(one)
    one.with_name("aside").rename(two)
    for digest in digests:
        with pytest.raises(DataCorruptError):
            await client.fetch(client.ticket("a", digest), digest)


async def test_link_in_place_of_a_blob_is_not_followed_T06(client, store, tmp_path):
    digest = (await client.register("a", good_adapter(1))).adapter.digest
    blob = max(store.blobs(), key=lambda path: path.stat().st_size)
    blob.rename(tmp_path / "elsewhere")
    blob.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataCorruptError):
        await client.fetch(client.ticket("a", digest), digest)


async def test_registry_survives_a_restart(client, store):
    one = (await client.register("a", good_adapter(1), alias="x")).adapter
    await client.set_alias("a", "y", one.digest)
    before = await client.list("a")
    store.kill()
    await store.start()
    assert await client.list("a") == before


async def test_damaged_registry_is_set_aside_not_deleted_F30(client, store):
    digest = (await client.register("a", good_adapter(1))).adapter.digest
    store.stop()
    (store.directory / "registry.sqlite3").write_bytes(b"garbage" * 1000)
    await store.start()
    with pytest.raises(AdapterNotFoundError):
        await client.resolve("a", digest)
    aside = next(store.directory.glob("damaged-*"))
    assert len(list((aside / "blobs").iterdir())) == 2
    assert "damaged_registry_set_aside" in store.log.read_text()
    assert (await client.register("a", good_adapter(1))).is_new


async def test_registry_of_a_newer_release_is_left_alone_F30(store):
    store.stop()
    path = store.directory / "registry.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(AssertionError, match="schema version 99"):
        await store.start()
    assert path.exists()


async def test_two_stores_do_not_share_a_directory(store, tmp_path):
    other = StoreProcess(tmp_path)
    try:
        with pytest.raises(AssertionError, match="another adapter store"):
            await other.start()
    finally:
        other.close()


async def test_orderly_stop_leaves_no_socket_and_no_lock(client, store):
    await client.register("a", good_adapter(1))
    assert store.stop() == 0
    assert not store.has_socket()
    with open_storage(store.directory) as storage:
        assert len(storage.reader.adapters("a", 10)) == 1


async def test_bad_settings_are_named(tmp_path):
    store = StoreProcess(tmp_path, MAX_LORA_RANK="many", REDIS_URL="http://x", TYPO="1")
    try:
        with pytest.raises(AssertionError) as caught:
            await store.start()
        assert "EDGELORA_STORE_MAX_LORA_RANK" in str(caught.value)
        assert "EDGELORA_STORE_TYPO is not a known setting" in str(caught.value)
    finally:
        store.close()
    store = StoreProcess(tmp_path, REDIS_URL="http://x")
    try:
        with pytest.raises(AssertionError, match="EDGELORA_STORE_REDIS_URL"):
            await store.start()
    finally:
        store.close()


async def test_readiness_is_false_while_the_blobs_can_not_be_read_I6(store, tmp_path):
    async with open_channel(store.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        blobs = store.directory / "blobs"
        states = health.Watch(health_pb2.HealthCheckRequest(), timeout=30)
        seen = []
        async for state in states:
            seen.append(state.status)
            if len(seen) == 1:
                blobs.rename(tmp_path / "away")
            elif len(seen) == 2:
                (tmp_path / "away").rename(blobs)
            else:
                states.cancel()
                break
        assert seen == [1, 2, 1]
