"""Adapters of an encoder beside those of a decoder: one store, one registry, two base models."""

import asyncio
import json
from dataclasses import replace

import pytest

from edgelora.adapter_format import parse_head
from edgelora.adapter_package import write_package
from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterRejectedError,
    InvalidRequestError,
    QuotaExceededError,
)
from edgelora.v1.adapter_pb2 import ServingForm
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.ticket_pb2 import TenantClaim
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess
from tests.integration.adapter_store.test_grants import Operator
from tests.support.adapter_files import card_bytes, good_adapter, ranked_adapter
from tests.support.tiny_encoder import (
    classifier_files,
    embedding_files,
    head_bytes,
    save_tiny_encoder,
)

pytestmark = pytest.mark.integration

LABELS = ("pay bill", "transfer", "nothing of it")
RULE = {"label": LABELS[2], "score": "energy", "threshold": 1.5}
FILES = classifier_files(
    LABELS, card=card_bytes("Pay it", description="Sorts wishes."), out_of_scope=RULE
)
ENCODE, GENERATE = Task.TASK_ENCODE, Task.TASK_GENERATE


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("encoder")
    return directory, save_tiny_encoder(directory)


@pytest.fixture(scope="module")
def shared(tmp_path_factory, encoder):
    """One store for all tests that leave it running, and the directory of its remote."""
    place = tmp_path_factory.mktemp("store")
    shelf = place / "shelf"
    shelf.mkdir()
    remotes = place / "remotes.toml"
    remotes.write_text(f'[shop]\nkind = "directory"\npath = "{shelf}"\n')
    process = StoreProcess(
        place, ENCODER_MODEL_DIRECTORY=str(encoder[0]), REMOTES_FILE=str(remotes)
    )
    try:
        asyncio.run(process.start())
        yield process, shelf
    finally:
        process.close()


@pytest.fixture
async def client(shared):
    async with open_channel(shared[0].address) as channel:
        yield StoreClient(channel)


def write(directory, files):
    """A PEFT directory with all the files."""
    directory.mkdir()
    for name, data in (
        ("adapter_config.json", files.config),
        ("adapter_model.safetensors", files.weights),
        ("card.json", files.card),
        ("head.json", files.head),
    ):
        if data:
            (directory / name).write_bytes(data)
    return directory


async def test_both_tasks_live_beside_each_other(client, encoder):
    decoder_files = replace(good_adapter(1), card=card_bytes("Write"))
    writer = (await client.register("a", decoder_files, alias="write")).adapter
    sorter = (await client.register("a", FILES, alias="sort")).adapter
    vectors = (await client.register("a", embedding_files(), alias="find")).adapter
    assert (writer.task, writer.HasField("head")) == (GENERATE, False)
    assert (vectors.task, vectors.HasField("head")) == (ENCODE, False)
    assert (sorter.task, sorter.base_digest) == (ENCODE, encoder[1].digest)
    assert tuple(sorter.head.labels) == LABELS
    assert sorter.head.knows_out_of_scope
    assert sorter.description == "Sorts wishes."
    found = await client.get("a", "sort")
    assert tuple(found.head.labels) == LABELS
    assert list(found.example_prompts) == ["Pay it"]
    listed = {each.digest: each for each in (await client.list("a")).adapters}
    assert len(listed) == 3
    assert listed[sorter.digest].HasField("head")
    assert not listed[sorter.digest].head.labels, "only GetAdapter tells them"
    # The router generates.
    candidates = (await client.candidates("a")).candidates
    assert [each.digest for each in candidates] == [writer.digest]

    certificate = json.loads(found.certificate.document)
    assert certificate["base_digest"] == encoder[1].digest
    assert certificate["encoding"] is None
    assert "encoder" in certificate["why_exact"]
    assert "its worker proves" in certificate["why_not_measured"]
    assert found.certificate.form == ServingForm.SERVING_FORM_EXACT

    resolved = await client.resolve("a", "sort", task=ENCODE)
    assert resolved.adapters[0].digest == sorter.digest
    for name, wrong, remedy in (
        ("sort", GENERATE, "Classify or Embed"),
        ("find", Task.TASK_UNSPECIFIED, "Classify or Embed"),
        ("write", ENCODE, "Generate or Chat"),
    ):
        with pytest.raises(AdapterIncompatibleError, match=remedy) as caught:
            await client.resolve("a", name, task=wrong)
        assert caught.value.field == "adapters[0].adapter"
    with pytest.raises(InvalidRequestError, match="base model"):
        await client.register("a", embedding_files(), alias=encoder[1].name)


async def test_worker_gets_the_head_by_stream_and_by_name_and_it_goes_with_its_adapter(
    client, shared
):
    store, files = shared[0], classifier_files(LABELS, seed=1, out_of_scope=RULE)
    before = {path.name for path in store.blobs()}
    digest = (await client.register("c", files)).adapter.digest
    await client.register("d", files)
    ticket = client.ticket("c", digest)
    sent = await client.fetch(ticket, digest)
    assert sent.weights == files.weights
    assert parse_head(sent.head) == parse_head(files.head)
    location = await client.fetch(ticket, digest, shared=True)
    assert (store.directory / "blobs" / location.head_blob).read_bytes() == sent.head
    # With another rule it is another adapter, whose other files are the same.
    second = (await client.register("c", classifier_files(LABELS, seed=1))).adapter
    assert second.digest != digest
    assert not second.head.knows_out_of_scope
    await client.delete("c", digest)
    assert location.head_blob in {path.name for path in store.blobs()}
    await client.delete("d", digest)
    left = {path.name for path in store.blobs()} - before
    assert {location.weights_blob, location.head_blob} & left == {location.weights_blob}
    await client.delete("c", second.digest)
    assert {path.name for path in store.blobs()} == before


WRONG = (
    (replace(FILES, head=b"{}"), "head"),
    (replace(FILES, head=head_bytes(["a", "b"])), "head.labels"),
    (replace(good_adapter(), head=FILES.head), "head"),
    (replace(embedding_files(), head=FILES.head), "head"),
    (replace(FILES, weights=FILES.weights[:-1]), "weights"),
    (replace(FILES, head=b" " * 600_000), "header.head_size_bytes"),
)


async def test_classifier_that_is_not_whole_leaves_nothing_A06_A16(client, shared):
    before = shared[0].blobs()
    for files, field in WRONG:
        with pytest.raises(AdapterRejectedError) as caught:
            await client.register("e", files)
        assert caught.value.field == field
    assert shared[0].blobs() == before
    assert not shared[0].staged()
    assert not (await client.list("e")).adapters


async def test_packages_carry_the_head_and_bring_it_back(client, shared):
    store, shelf = shared
    files = classifier_files(LABELS, seed=2, out_of_scope=RULE)
    source = write(shelf / "plain", files)
    write_package(source, shelf / "packed", "v1")
    _, first = await client.install("f", "shop/plain", alias="one")
    _, second = await client.install("f", "shop/packed:v1", alias="two")
    digest = first.adapter.digest
    assert second.adapter.digest == digest
    assert tuple(second.adapter.head.labels) == LABELS
    ticket = client.ticket("f", digest)
    location = await client.fetch(ticket, digest, shared=True)
    (store.directory / "blobs" / location.head_blob).write_bytes(b"damaged")
    sent = await client.fetch(ticket, digest)
    assert parse_head(sent.head) == parse_head(files.head)
    assert sent.weights == files.weights


async def test_grants_pins_versions_and_quotas_are_as_for_any_adapter(client):
    few = client.claim("g")
    claim = client.sealer.open(few, TenantClaim)
    claim.max_adapters = 1
    few = client.sealer.seal(claim)
    digest = (await client.register("g", FILES, alias="sort", claim=few)).adapter.digest
    with pytest.raises(QuotaExceededError) as caught:
        await client.register("g", embedding_files(), claim=few)
    assert caught.value.field == "max_adapters"
    assert (await client.pin("g", "sort")).is_pinned
    await Operator(client).grant("g", "sort", "h", alias="theirs")
    assert tuple((await client.get("h", "theirs")).head.labels) == LABELS
    assert (await client.resolve("h", "theirs", task=ENCODE)).adapters[0].digest == digest
    decoders = (await client.register("g", ranked_adapter(8))).adapter.digest
    with pytest.raises(InvalidRequestError):
        await client.register("g", classifier_files(LABELS), version_of_digest=decoders)


async def test_worker_is_asked_to_warm_up_what_it_can_load_alone(client):
    digest = (await client.register("i", FILES, alias="sort")).adapter.digest
    for _ in range(20):
        await client.resolve("i", "sort", task=ENCODE)
    assert not (await client.report("decoder", task=GENERATE)).warm_ups
    (wish,) = (await client.report("encoder", task=ENCODE)).warm_ups
    assert wish.digest == digest
    assert (await client.fetch(wish.permit, digest)).head


async def test_encoder_alone_serves_no_decoder(tmp_path, encoder):
    process = StoreProcess(tmp_path, MODEL_DIRECTORY="", ENCODER_MODEL_DIRECTORY=str(encoder[0]))
    try:
        await process.start()
        async with open_channel(process.address) as channel:
            client = StoreClient(channel)
            await client.register("a", FILES, alias="sort")
            assert not (await client.candidates("a")).candidates
            with pytest.raises(AdapterIncompatibleError, match="--no-decoder"):
                await client.register("a", good_adapter())
    finally:
        process.close()


async def test_classifier_waits_for_its_base_to_be_served_again(tmp_path, encoder):
    process = StoreProcess(tmp_path, ENCODER_MODEL_DIRECTORY=str(encoder[0]))
    try:
        await process.start()
        async with open_channel(process.address) as channel:
            client = StoreClient(channel)
            digest = (await client.register("a", FILES, alias="sort")).adapter.digest
            process.kill()
            directory = process.settings.pop("ENCODER_MODEL_DIRECTORY")
            await process.start()
            with pytest.raises(AdapterIncompatibleError, match="another base model"):
                await client.resolve("a", "sort", task=ENCODE)
            with pytest.raises(AdapterIncompatibleError, match="up --encoder"):
                await client.register("a", embedding_files())
            assert tuple((await client.get("a", "sort")).head.labels) == LABELS
            process.kill()
            process.settings["ENCODER_MODEL_DIRECTORY"] = directory
            await process.start()
            resolved = await client.resolve("a", "sort", task=ENCODE)
            assert resolved.adapters[0].digest == digest
    finally:
        process.close()
