"""Uploads through real gRPC and a real verification process."""

import asyncio
import os
import pickle
import subprocess

import numpy as np
import pytest

from edgelora.adapter_format import adapter_digest, parse_adapter_config
from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterNotFoundError,
    AdapterRejectedError,
    AlreadyExistsError,
    EdgeLoraError,
    InvalidRequestError,
    QuotaExceededError,
    ResourcePressureError,
    UnauthenticatedError,
)
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterState
from services.chassis.channel import open_channel, translate_errors
from services.chassis.sealing import Sealer
from tests.integration.adapter_store.store_process import (
    StoreClient,
    StoreProcess,
    chunk,
    eventually,
    messages,
)
from tests.support.adapter_files import (
    AdapterFiles,
    config_bytes,
    good_adapter,
    safetensors_bytes,
    tensor_name,
    tensors,
    with_header,
)
from tests.support.tiny_base import tiny_base

pytestmark = pytest.mark.integration
Q0_A = tensor_name(0, "q_proj", "A")


def spoiled(name: str = Q0_A, value: float | None = None, **extra) -> bytes:
    named = tensors()
    if value is not None:
        named[name][0, 0] = value
    return safetensors_bytes(named | extra)


async def test_a_good_adapter_is_described_and_kept(client, store):
    files = good_adapter()
    response = await client.register("a", files, alias="mail", description="Business e-mail")
    assert response.is_new
    adapter = response.adapter
    assert adapter.digest == adapter_digest(
        parse_adapter_config(files.config, max_rank=64), files.weights
    )
    assert (adapter.rank, adapter.alpha) == (4, 8.0)
    assert list(adapter.target_modules) == ["q_proj", "v_proj"]
    assert adapter.num_parameters == sum(v.size for v in tensors().values())
    assert adapter.size_bytes == len(files.weights)
    assert list(adapter.aliases) == ["mail"]
    assert adapter.state == AdapterState.ADAPTER_STATE_REGISTERED
    assert adapter.description == "Business e-mail"
    assert adapter.registered_at.seconds > 0
    assert (response.alias.digest, response.alias.generation) == (adapter.digest, 1)
    assert len(store.blobs()) == 2
    assert store.staged() == []


async def test_files_are_private(client, store):
    await client.register("a", good_adapter())
    assert store.directory.stat().st_mode & 0o777 == 0o700
    assert all(blob.stat().st_mode & 0o777 == 0o400 for blob in store.blobs())
    assert (store.directory / "registry.sqlite3").stat().st_mode & 0o077 == 0


async def test_same_content_again_is_the_same_adapter(client, store):
    first = await client.register("a", good_adapter(), alias="x")
    again = await client.register("a", good_adapter(), alias="x")
    assert not again.is_new
    assert again.alias == first.alias
    assert again.adapter.digest == first.adapter.digest
    assert len(store.blobs()) == 2


async def test_the_name_does_not_matter_A08_A09(client):
    other = await client.register("b", good_adapter(), alias="other")
    for alias in ("lora", "lora_A", "default", "home.v1.2"):
        named = await client.register("a", good_adapter(), alias=alias)
        assert named.adapter.digest == other.adapter.digest


CASES = {
    "A03 cap": (good_adapter(r=600), AdapterRejectedError, "config.r"),
    "A03 pattern": (
        good_adapter(rank_pattern={"k_proj": 128}),
        AdapterRejectedError,
        "config.rank_pattern",
    ),
    "A05": (
        good_adapter(modules_to_save=["lm_head"]),
        AdapterRejectedError,
        "config.modules_to_save",
    ),
    "A07": (
        good_adapter(brand_new_option={"x": 1}),
        AdapterRejectedError,
        "config",
    ),
    "A11": (good_adapter(r=0), AdapterRejectedError, "config.r"),
    "A13": (good_adapter(bias="lora_only"), AdapterRejectedError, "config.bias"),
    "A21": (
        good_adapter(init_lora_weights="pissa"),
        AdapterRejectedError,
        "config.init_lora_weights",
    ),
    "T09": (
        good_adapter(megatron_config={"a": 1}, megatron_core="this"),
        AdapterRejectedError,
        "config.megatron_config",
    ),
    "DoRA": (good_adapter(use_dora=True), AdapterRejectedError, "config.use_dora"),
    "alpha missing": (good_adapter(lora_alpha=...), AdapterRejectedError, "config.lora_alpha"),
    "A20": (
        good_adapter(target_modules=["lm_head"]),
        AdapterIncompatibleError,
        "config.target_modules",
    ),
    "A15 NaN": (
        AdapterFiles(config_bytes(), spoiled(value=np.nan)),
        AdapterRejectedError,
        "weights",
    ),
    "A15 Inf": (
        AdapterFiles(config_bytes(), spoiled(value=np.inf)),
        AdapterRejectedError,
        "weights",
    ),
    "A15 huge": (
        AdapterFiles(config_bytes(), spoiled(value=3e38)),
        AdapterRejectedError,
        "weights",
    ),
    "A06 shape": (
        AdapterFiles(config_bytes(), spoiled(**{Q0_A: np.ones((4, 33), dtype="<f4")})),
        AdapterIncompatibleError,
        "weights",
    ),
    "left over": (
        AdapterFiles(config_bytes(), spoiled(stray=np.ones((4, 4), dtype="<f4"))),
        AdapterRejectedError,
        "weights",
    ),
    "dtype": (
        AdapterFiles(config_bytes(), spoiled(**{Q0_A: np.ones((4, 32), dtype="<f8")})),
        AdapterRejectedError,
        "weights",
    ),
    "X12 offsets": (
        AdapterFiles(
            config_bytes(),
            with_header(
                {"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2**63 - 1]}}, bytes(4)
            ),
        ),
        AdapterRejectedError,
        "weights",
    ),
    "X09 pickle": (
        AdapterFiles(config_bytes(), pickle.dumps({"a": 1})),
        AdapterRejectedError,
        "weights",
    ),
    "A16 LFS": (
        AdapterFiles(config_bytes(), b"version https://git-lfs.github.com/spec/v1\n"),
        AdapterRejectedError,
        "weights",
    ),
    "A16 error page": (
        AdapterFiles(config_bytes(), b'{"error":"not found"}'),
        AdapterRejectedError,
        "weights",
    ),
    "A16 cut": (
        AdapterFiles(config_bytes(), spoiled()[:-1]),
        AdapterRejectedError,
        "weights",
    ),
    "A23 no config": (
        AdapterFiles(b"", spoiled()),
        AdapterRejectedError,
        "header.config_size_bytes",
    ),
    "A23 no weights": (
        AdapterFiles(config_bytes(), b""),
        AdapterRejectedError,
        "header.weights_size_bytes",
    ),
    "T30 config": (
        AdapterFiles(b'{"r": 1, "r": 2}', spoiled()),
        AdapterRejectedError,
        "adapter_config.json",
    ),
}


async def test_bad_adapters_are_refused_with_the_field_and_nothing_is_left_T01_T02_T03(
    client, store
):
    places = asyncio.Semaphore(4)

    async def refusal(files: AdapterFiles):
        async with places:
            with pytest.raises(EdgeLoraError) as caught:
                await client.register("a", files, alias="bad")
            return caught.value

    refusals = await asyncio.gather(*(refusal(files) for files, _, _ in CASES.values()))
    for (name, (_, error_class, field)), error in zip(CASES.items(), refusals, strict=True):
        assert type(error) is error_class, name
        assert error.field == field, name
        assert error.message, name
    assert store.blobs() == []
    assert store.staged() == []
    assert not (await client.list("a")).adapters
    assert (await client.register("a", good_adapter())).is_new, "a good one goes on working"


async def test_cut_and_flipped_files_are_refused_F13(client, store):
    files = good_adapter()
    flipped = bytearray(files.weights)
    flipped[8] ^= 0x40
    damaged = [files.weights[:7], files.weights[: len(files.weights) // 2], bytes(flipped)]
    outcomes = await asyncio.gather(
        *(client.register("a", AdapterFiles(files.config, data)) for data in damaged),
        return_exceptions=True,
    )
    assert all(isinstance(outcome, AdapterRejectedError) for outcome in outcomes)
    assert store.blobs() == []


BAD_ALIASES = (
    "../x", "/abs", "a/b", "a\\b", ".", "..", "-rf", "CON:", "a b", "x" * 65, "\u202ea", "é",
    "a\n", "🙂", "%2e%2e/", "a" * 64, "tiny", "sha256:" + "a" * 64,
)  # fmt: skip


async def test_names_come_from_an_allow_list_T05(client, store):
    for alias in BAD_ALIASES:
        with pytest.raises(InvalidRequestError) as caught:
            await client.register("a", good_adapter(), alias=alias)
        assert caught.value.field == "alias", alias
    assert store.blobs() == []


async def test_description_is_bounded_X06(client):
    for description in ("x" * 501, "a\0b"):
        with pytest.raises(InvalidRequestError) as caught:
            await client.register("a", good_adapter(), description=description)
        assert caught.value.field == "description"


async def test_protocol_of_an_upload_is_enforced(client, store):
    files = good_adapter()
    header = client.header("a", files)
    start = pb.AdapterStoreServiceRegisterAdapterRequest(header=header)
    config = chunk(pb.ADAPTER_FILE_CONFIG, files.config)
    weights = chunk(pb.ADAPTER_FILE_WEIGHTS, files.weights)
    sequences = {
        "no message": [],
        "no header": [config],
        "two headers": [start, start],
        "weights first": [start, weights],
        "config late": [start, config, weights, config],
        "config again": [start, config, config],
        "no weights": [start, config],
        "short config": [start, chunk(pb.ADAPTER_FILE_CONFIG, files.config[:-1]), weights],
        "long weights": [start, config, weights, chunk(pb.ADAPTER_FILE_WEIGHTS, b"x")],
        "short weights": [start, config, chunk(pb.ADAPTER_FILE_WEIGHTS, files.weights[:-1])],
        "no file": [start, chunk(pb.ADAPTER_FILE_UNSPECIFIED, b"x")],
        "empty chunk": [start, chunk(pb.ADAPTER_FILE_CONFIG, b"")],
        "huge chunk": [start, chunk(pb.ADAPTER_FILE_CONFIG, bytes(2**20 + 1))],
        "empty message": [start, pb.AdapterStoreServiceRegisterAdapterRequest()],
    }
    for name, sequence in sequences.items():
        with pytest.raises(InvalidRequestError) as caught:
            await client.send(iter(sequence))
        assert caught.value.field, name
        assert store.staged() == [], name
    assert store.blobs() == []


async def test_announced_sizes_are_capped_before_anything_is_written(client, store):
    files = good_adapter()
    for field, size in (("config_size_bytes", 2**20 + 1), ("weights_size_bytes", 2**63)):
        with pytest.raises(AdapterRejectedError) as caught:
            await client.register("a", files, **{field: size})
        assert caught.value.field == f"header.{field}"
    assert store.staged() == []


async def test_client_that_leaves_mid_upload_leaves_nothing(client, store):
    files = good_adapter()
    got_header = asyncio.Event()

    async def half():
        yield pb.AdapterStoreServiceRegisterAdapterRequest(header=client.header("a", files))
        yield chunk(pb.ADAPTER_FILE_CONFIG, files.config)
        got_header.set()
        await asyncio.Event().wait()

    call = client.stub.RegisterAdapter(half(), timeout=60)
    await got_header.wait()
    await eventually(lambda: store.staged() != [])
    call.cancel()
    await eventually(lambda: store.staged() == [])
    assert store.blobs() == []


async def test_alias_in_use_is_not_replaced_unasked(client, store):
    first = await client.register("a", good_adapter(1), alias="x")
    with pytest.raises(AlreadyExistsError) as caught:
        await client.register("a", good_adapter(2), alias="x")
    assert caught.value.field == "alias"
    assert caught.value.metadata["generation"] == "1"
    assert len((await client.list("a")).adapters) == 1
    assert len(store.blobs()) == 2
    second = await client.register("a", good_adapter(2), alias="x", replace_alias=True)
    assert second.alias.generation == 2
    assert second.adapter.digest != first.adapter.digest
    assert len((await client.list("a")).adapters) == 2


async def test_claim_is_required_and_has_to_be_ours_T24(client, store):
    files = good_adapter()
    async with open_channel(store.address) as channel:
        stranger = StoreClient(channel, Sealer(b"x" * 32))
        for claim in (
            stranger.claim("a"),
            client.claim("a", life_s=-1),
            client.claim(""),
            client.ticket("a"),
            None,
        ):
            header = client.header("a", files, claim=claim)
            with pytest.raises(UnauthenticatedError):
                await client.send(messages(header, files))
        with pytest.raises(UnauthenticatedError):
            await stranger.resolve("a", "x")
        with pytest.raises(UnauthenticatedError):
            await stranger.list("a")
        with pytest.raises(UnauthenticatedError):
            await stranger.delete("a", "x")
    assert store.blobs() == []


async def test_message_over_the_limit_is_refused_and_the_connection_lives_G06(client):
    files = good_adapter()
    start = pb.AdapterStoreServiceRegisterAdapterRequest(header=client.header("a", files))
    with pytest.raises(EdgeLoraError) as caught:
        await client.send(iter([start, chunk(pb.ADAPTER_FILE_WEIGHTS, bytes(5 * 2**20))]))
    assert caught.value.code == "RESOURCE_EXHAUSTED"
    assert (await client.register("a", files)).is_new


async def test_quota_and_space_are_refused_and_nothing_is_left_F11(tmp_path):
    store = StoreProcess(tmp_path, MAX_ADAPTERS_PER_TENANT="2")
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            for seed in range(2):
                await client.register("a", good_adapter(seed))
            with pytest.raises(QuotaExceededError):
                await client.register("a", good_adapter(2))
            assert not (await client.register("a", good_adapter(0))).is_new
            await client.register("b", good_adapter(0))
            assert len(store.blobs()) == 3
        store.stop()
        full = StoreProcess(tmp_path, MIN_FREE_BYTES="1048576GiB")
        try:
            await full.start()
            async with open_channel(full.address) as channel:
                client = StoreClient(channel)
                with pytest.raises(ResourcePressureError):
                    await client.register("c", good_adapter(3))
                assert len((await client.list("a")).adapters) == 2
                assert len(full.blobs()) == 3
        finally:
            full.close()
    finally:
        store.close()


@pytest.fixture
def small_file_system(tmp_path):
    mount = tmp_path / "store"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


async def test_full_file_system_is_reported_and_recovers_without_restart_F11(
    tmp_path, small_file_system
):
    store = StoreProcess(tmp_path, MIN_FREE_BYTES="0")
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            kept = (await client.register("a", good_adapter(0))).adapter.digest
            ballast = small_file_system / "ballast"
            with pytest.raises(OSError, match="space"), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1024))
            with pytest.raises(ResourcePressureError):
                await client.register("a", good_adapter(1))
            assert store.staged() == []
            assert (await client.resolve("a", kept)).adapters[0].digest == kept
            ballast.unlink()
            await client.register("a", good_adapter(1))
    finally:
        store.close()


async def test_adapter_of_another_base_has_to_be_registered_again(client, store):
    digest = (await client.register("a", good_adapter())).adapter.digest
    store.stop()
    store.use_base(tiny_base("sha256:" + "1" * 64))
    await store.start()
    with pytest.raises(AdapterIncompatibleError) as caught:
        await client.resolve("a", digest)
    assert caught.value.field == "adapters[0].adapter"


async def test_no_user_text_in_the_log_T14(client, store):
    await client.register("a", good_adapter(), alias="canary-alias", description="canary words")
    with pytest.raises(AdapterRejectedError):
        await client.register("a", good_adapter(canary_key={"x": "canary"}))
    with pytest.raises(AdapterNotFoundError):
        await client.resolve("a", "canary-name")
    with translate_errors():
        store.stop()
    log = store.log.read_text()
    assert "rpc_finished" in log
    assert "canary" not in log


async def test_refusal_reaches_a_client_that_goes_on_sending(client, store):
    files = good_adapter()
    header = client.header("a", files, alias="not an alias")
    start = pb.AdapterStoreServiceRegisterAdapterRequest(header=header)
    more = [chunk(pb.ADAPTER_FILE_WEIGHTS, bytes(65536))] * 64
    for _ in range(20):
        outcomes = await asyncio.gather(
            *(client.send(iter([start, *more])) for _ in range(4)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [InvalidRequestError] * 4


async def test_refusal_reaches_a_client_that_waits_for_an_answer(client, store):
    async def header_only():
        header = client.header("a", good_adapter(), alias="not an alias")
        yield pb.AdapterStoreServiceRegisterAdapterRequest(header=header)
        await asyncio.Event().wait()

    with pytest.raises(InvalidRequestError):
        await client.send(header_only())
