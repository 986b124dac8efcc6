"""Three tiers through a real store: packages, a flash budget, pins, what is counted."""

import shutil
from pathlib import Path

import pytest

from edgelora.errors import (
    AlreadyExistsError,
    DataCorruptError,
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    ResourcePressureError,
    ServiceUnavailableError,
    TicketExpiredError,
)
from edgelora.v1 import adapter_pb2 as adapter_pb
from edgelora.v1 import adapter_store_service_pb2 as pb
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess
from tests.support.adapter_files import good_adapter

pytestmark = pytest.mark.integration

FILES = good_adapter(1)
FLASH_BYTES = 2 * (len(FILES.config) + len(FILES.weights)) + 200
"""Room for two of the test adapters, not for three."""


def put_on_usb(usb: Path, name: str, seed: int) -> None:
    """Copies an adapter onto the medium, as PEFT writes it."""
    directory = usb / name
    directory.mkdir(parents=True)
    files = good_adapter(seed)
    (directory / "adapter_config.json").write_bytes(files.config)
    (directory / "adapter_model.safetensors").write_bytes(files.weights)


@pytest.fixture
async def usb_store(tmp_path):
    usb = tmp_path / "usb"
    for number in range(4):
        put_on_usb(usb, f"pack{number}", seed=number)
    remotes = tmp_path / "remotes.toml"
    remotes.write_text(
        f'[usb]\nkind = "directory"\npath = "{usb}"\n'
        f'[private]\nkind = "directory"\npath = "{usb}"\ntenants = ["b"]\n'
    )
    process = StoreProcess(
        tmp_path,
        REMOTES_FILE=str(remotes),
        FLASH_BUDGET=str(FLASH_BYTES),
        FLASH_MIN_RESIDENCY="0s",
        MAX_PINNED_PER_TENANT="1",
    )
    try:
        await process.start()
        async with open_channel(process.address) as channel:
            yield process, StoreClient(channel), usb
    finally:
        process.close()


async def test_installed_adapter_is_like_one_that_was_sent(usb_store):
    _, client, _ = usb_store
    progress, installed = await client.install("a", "usb/pack1", alias="mail")
    assert progress[-1].received_bytes == progress[-1].total_bytes > 0
    assert installed.is_new
    assert installed.alias.generation == 1
    adapter = await client.get("a", "mail")
    assert adapter.lineage.source.startswith("usb/pack1@sha256:")
    assert adapter.is_on_flash
    assert adapter.usage.remote_bytes_read == progress[-1].total_bytes
    sent = await client.register("b", good_adapter(1))
    assert sent.adapter.digest == adapter.digest
    assert sent.adapter.lineage.source == "upload"


async def test_full_flash_lets_the_least_recently_used_package_go_and_brings_it_back(usb_store):
    store, client, _ = usb_store
    digests = []
    for number in range(3):
        _, installed = await client.install("a", f"usb/pack{number}", alias=f"p{number}")
        digests.append(installed.adapter.digest)
        await client.resolve("a", f"p{number}")
    assert [(await client.get("a", f"p{n}")).is_on_flash for n in range(3)] == [False, True, True]
    tiers = await client.tiers()
    assert (tiers.num_flash_evictions, tiers.num_adapters) == (1, 3)
    assert 0 < tiers.flash_bytes <= tiers.flash_budget_bytes == FLASH_BYTES
    before = tiers.remote_bytes_read
    await client.resolve("a", "p0")
    fetched = await client.fetch(client.ticket("a", digests[0]), digests[0])
    assert fetched.weights == good_adapter(0).weights
    assert [(await client.get("a", f"p{n}")).is_on_flash for n in range(3)] == [True, False, True]
    tiers = await client.tiers()
    assert (tiers.num_flash_hits, tiers.num_remote_hits) == (3, 1)
    assert tiers.remote_bytes_read > before
    assert store.stop() == 0
    await store.start()
    usage = (await client.get("a", "p0")).usage
    assert (usage.num_flash_hits, usage.num_remote_hits) == (1, 1)


async def test_only_copies_pinned_and_used_adapters_stay_on_flash(usb_store):
    _, client, _ = usb_store
    await client.register("a", good_adapter(0), alias="own")
    await client.install("a", "usb/pack1", alias="pinned")
    pinned = await client.pin("a", "pinned")
    assert pinned.is_pinned
    for attempt in range(2):
        with pytest.raises(ResourcePressureError) as caught:
            await client.install("a", "usb/pack2")
        assert caught.value.metadata == {"resource": "flash"}, attempt
    with pytest.raises(QuotaExceededError):
        await client.pin("a", "own")
    assert not (await client.pin("a", "pinned", is_pinned=False)).is_pinned
    await client.report("w", pinned.digest, num_references=1)
    with pytest.raises(ResourcePressureError):
        await client.install("a", "usb/pack2")
    assert (await client.report("w", pinned.digest)).pinned_digests == []
    await client.install("a", "usb/pack2", alias="next")
    assert not (await client.get("a", "pinned")).is_on_flash
    assert (await client.get("a", "own")).is_on_flash


async def test_damaged_package_is_brought_again_and_an_only_copy_is_not_F13(usb_store):
    store, client, _ = usb_store
    _, installed = await client.install("a", "usb/pack1")
    sent = await client.register("a", good_adapter(0))
    for blob in store.blobs():
        data = bytearray(blob.read_bytes())
        data[len(data) // 2] ^= 1
        blob.chmod(0o600)
        blob.write_bytes(data)
    digest = installed.adapter.digest
    fetched = await client.fetch(client.ticket("a", digest), digest)
    assert fetched.weights == good_adapter(1).weights
    with pytest.raises(DataCorruptError):
        await client.fetch(client.ticket("a", sent.adapter.digest), sent.adapter.digest)


async def test_medium_that_is_gone_costs_only_what_was_not_on_flash_F15(usb_store):
    _, client, usb = usb_store
    digests = []
    for number in range(3):
        _, installed = await client.install("a", f"usb/pack{number}")
        digests.append(installed.adapter.digest)
    shutil.rmtree(usb)
    for digest in digests[1:]:
        await client.fetch(client.ticket("a", digest), digest)
    with pytest.raises(ServiceUnavailableError):
        await client.fetch(client.ticket("a", digests[0]), digests[0])
    with pytest.raises(ServiceUnavailableError):
        await client.install("a", "usb/pack3")


async def test_package_that_changed_under_its_digest_is_not_taken(usb_store):
    _, client, usb = usb_store
    digests = []
    for number in range(3):
        _, installed = await client.install("a", f"usb/pack{number}")
        digests.append(installed.adapter.digest)
    shutil.rmtree(usb / "pack0")
    put_on_usb(usb, "pack0", seed=9)
    with pytest.raises((NotFoundError, DataCorruptError)):
        await client.fetch(client.ticket("a", digests[0]), digests[0])


@pytest.mark.parametrize(
    ("package", "error"),
    [
        ("usb/absent", NotFoundError),
        ("nowhere/pack1", NotFoundError),
        ("private/pack1", NotFoundError),
        ("usb/../pack1", InvalidRequestError),
        ("https://example.org/pack1", InvalidRequestError),
        ("file:///etc/passwd", InvalidRequestError),
        ("", InvalidRequestError),
    ],
)
async def test_package_a_tenant_may_not_have_is_refused_T31(usb_store, package, error):
    store, client, _ = usb_store
    with pytest.raises(error) as caught:
        await client.install("a", package)
    assert caught.value.field == "package"
    assert store.blobs() == []


async def test_installing_replaces_an_alias_only_when_that_was_asked(usb_store):
    _, client, _ = usb_store
    _, first = await client.install("a", "usb/pack0", alias="x")
    with pytest.raises(AlreadyExistsError):
        await client.install("a", "usb/pack1", alias="x")
    with pytest.raises(AlreadyExistsError):
        await client.install("a", "usb/pack1", alias="x", expected_generation=2)
    _, second = await client.install("a", "usb/pack1", alias="x", expected_generation=1)
    assert second.alias.generation == 2
    assert second.adapter.lineage.parent_digest == first.adapter.digest
    resolved = (await client.resolve("a", "x")).adapters[0]
    assert (resolved.generation, resolved.digest) == (2, second.adapter.digest)
    assert resolved.lineage == second.adapter.lineage
    assert resolved.certificate_digest == second.adapter.certificate_digest != ""
    with pytest.raises(InvalidRequestError):
        await client.install("a", "usb/pack1", expected_generation=1)


async def test_pages_hold_every_adapter_once(usb_store):
    _, client, _ = usb_store
    await client.install("a", "usb/pack0", alias="z")
    await client.install("a", "usb/pack1", alias="y")
    first = await client.list("a", page_size=1)
    second = await client.list("a", page_size=1, page_token=first.next_page_token)
    assert second.next_page_token == ""
    assert [alias.name for alias in (*first.aliases, *second.aliases)] == ["y", "z"]
    for token in ("x", first.next_page_token[:-4], "ä"):
        with pytest.raises(InvalidRequestError) as caught:
            await client.list("a", page_token=token)
        assert caught.value.field == "page_token"
    with pytest.raises(InvalidRequestError):
        await client.list("a", page_size=1001)
    # A token names a place in time, not an adapter: another tenant's is of no use.
    assert len((await client.list("b", page_token=first.next_page_token)).adapters) == 0


async def test_what_workers_report_is_counted_once(usb_store):
    _, client, _ = usb_store
    _, installed = await client.install("a", "usb/pack0", alias="x")
    digest = installed.adapter.digest
    await client.fetch(client.ticket("a", digest), digest)
    report = {
        "sequence": 1,
        "num_slot_waits": 2,
        "memory_bytes": 100,
        "memory_budget_bytes": 1000,
        "loads": [
            pb.FinishedLoad(
                digest=digest,
                is_warm_up=True,
                bytes_read=10,
                stages=adapter_pb.LoadStages(decode_s=0.5, prove_s=float("nan")),
            )
        ],
        "evictions": [pb.EvictedAdapter(digest=digest, was_wasted=True)],
    }
    for _ in range(2):
        await client.report("w", digest, **report)
    await client.resolve("a", "x")
    tiers = await client.tiers()
    assert (tiers.num_loads, tiers.num_warm_ups, tiers.num_wasted_warm_ups) == (1, 1, 1)
    assert (tiers.num_slot_waits, tiers.num_memory_hits, tiers.num_memory_evictions) == (2, 1, 1)
    assert (tiers.memory_bytes, tiers.memory_budget_bytes) == (100, 1000)
    assert tiers.load_seconds == adapter_pb.LoadStages(decode_s=0.5)
    usage = (await client.get("a", "x")).usage
    assert (usage.num_loads, usage.num_wasted_warm_ups, usage.flash_bytes_read) == (1, 1, 10)
    await client.report("w", digest, incarnation=2, **report)
    assert (await client.tiers()).num_loads == 2


async def test_foreign_adapter_can_not_be_seen_or_pinned_T34(usb_store):
    _, client, _ = usb_store
    _, installed = await client.install("a", "usb/pack0", alias="x")
    for reference in ("x", installed.adapter.digest):
        with pytest.raises(NotFoundError):
            await client.get("b", reference)
        with pytest.raises(NotFoundError):
            await client.pin("b", reference)


async def test_permit_of_a_warm_up_fetches_one_adapter_and_nothing_else(usb_store):
    _, client, _ = usb_store
    _, installed = await client.install("a", "usb/pack0")
    digest = installed.adapter.digest
    await client.fetch(client.permit("a", digest), digest)
    for sealed in (client.permit("b", digest), client.permit("a", "sha256:" + "0" * 64)):
        with pytest.raises(NotFoundError):
            await client.fetch(sealed, digest)
    with pytest.raises(TicketExpiredError):
        await client.fetch(client.permit("a", digest, life_s=-1.0), digest)
