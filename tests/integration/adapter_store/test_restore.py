"""An encoded adapter leaves flash and comes back: what moves, what is made again, what stays."""

import hashlib
import struct
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec

import pytest

from edgelora.adapter_encoding import encode_adapter
from edgelora.adapter_format import codec
from edgelora.adapter_package import write_package
from edgelora.v1.adapter_pb2 import ServingForm
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess
from tests.support.adapter_verification import measured_adapter
from tests.support.measured_base import NUM_LAYERS, TARGETS, write_measured_base
from tests.support.placed_packages import KINDS, NAME, placed_package

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_spec("edgelora_native") is None, reason="run `make native` first"),
]
FILES, OTHER = measured_adapter(), measured_adapter(seed=1)
FILES_BYTES = len(FILES.config) + len(FILES.weights)
BASE_DIGEST = "sha256:" + "5" * 64


def form_of(directory, files, level=4.5):
    """Writes an adapter as PEFT does; returns its encoded form, at a level no node would choose."""
    directory.mkdir()
    (directory / "adapter_config.json").write_bytes(files.config)
    (directory / "adapter_model.safetensors").write_bytes(files.weights)
    return encode_adapter(
        directory, base_digest=BASE_DIGEST, targets=TARGETS, num_layers=NUM_LAYERS, level=level
    )


def made_by_another_release(form):
    """As good, but not what encoding makes here: the scale of one component is a little off."""
    data = bytearray(form.data)
    (num_modules,) = struct.unpack_from("<I", data, 12)
    data[128 + 20 * num_modules] ^= 1
    return replace(form, data=bytes(data))


class Node:
    """A store whose flash has room for one adapter, and a remote with a package."""

    def __init__(self, process, client, placed):
        self.process, self.client, self.placed = process, client, placed
        self.moved_bytes = 0

    async def install(self):
        """Installs the package; returns the adapter and the bytes that moved."""
        progress, _ = await self.client.install("a", NAME, alias="mail")
        assert progress[-1].received_bytes == progress[-1].total_bytes
        found, moved_bytes = await self.look()
        assert moved_bytes == progress[-1].total_bytes
        return found, moved_bytes

    async def evict(self):
        """Makes the adapter leave flash."""
        other = await self.client.register("b", OTHER)
        assert not (await self.client.get("a", "mail")).is_on_flash
        await self.client.delete("b", other.adapter.digest)
        assert self.process.blobs() == []

    async def restore(self):
        """Asks for the adapter as a worker does; returns the adapter and the bytes that moved."""
        digest = (await self.client.get("a", "mail")).digest
        location = await self.client.fetch(self.client.ticket("a", digest), digest, shared=True)
        (blob,) = self.process.blobs()
        assert blob.name == location.encoded_blob == hashlib.sha256(blob.read_bytes()).hexdigest()
        return await self.look()

    async def look(self):
        """The adapter, and the bytes that moved since the last look."""
        found = await self.client.get("a", "mail")
        before_bytes, self.moved_bytes = self.moved_bytes, found.usage.remote_bytes_read
        assert found.is_on_flash
        return found, self.moved_bytes - before_bytes


@asynccontextmanager
async def running(process, placed):
    """A store that is started and stopped, and the remote it knows."""
    await process.start()
    async with open_channel(process.address) as channel:
        yield Node(process, StoreClient(channel), placed)
    assert process.stop() == 0


@asynccontextmanager
async def node(tmp_path, *forms, kind="directory", is_trusted=True, **settings):
    """A node, and a remote with a package that has these encoded forms."""
    write_package(tmp_path / "peft", tmp_path / "layout", "latest", forms)
    layout = tmp_path / "layout"
    with placed_package(kind, tmp_path, layout, is_trusted=is_trusted) as placed:
        (tmp_path / "remotes.toml").write_text(placed.remotes)
        process = StoreProcess(
            tmp_path,
            REMOTES_FILE=str(tmp_path / "remotes.toml"),
            **{"FLASH_BUDGET": "35000", "FLASH_MIN_RESIDENCY": "0s", "CODEC_MAX_KL": "10"}
            | settings,
        )
        write_measured_base(tmp_path / "model")
        try:
            async with running(process, placed) as found:
                yield found
        finally:
            process.close()


def digest_of(form):
    return f"sha256:{hashlib.sha256(form.data).hexdigest()}"


@pytest.fixture
def form(tmp_path):
    return form_of(tmp_path / "peft", FILES)


@pytest.mark.parametrize("kind", KINDS)
async def test_restore_with_the_layer_moves_its_bytes_and_changes_nothing(tmp_path, form, kind):
    async with node(tmp_path, form, kind=kind) as found:
        installed, moved_bytes = await found.install()
        assert moved_bytes == FILES_BYTES + len(form.data)
        certificate = installed.certificate
        assert certificate.form == ServingForm.SERVING_FORM_ENCODED_4
        assert f"sha256:{found.process.blobs()[0].name}" == digest_of(form)
        await found.evict()
        restored, moved_bytes = await found.restore()
        assert moved_bytes == len(form.data) < FILES_BYTES / 5
        assert restored.certificate == certificate
        assert restored.certificate_digest == installed.certificate_digest
        # Once more from a damaged copy.
        (blob,) = found.process.blobs()
        blob.chmod(0o600)
        blob.write_bytes(bytes(len(form.data)))
        restored, moved_bytes = await found.restore()
        assert moved_bytes == len(form.data)
        assert restored.certificate == certificate


@pytest.mark.parametrize(("level", "is_own"), [(3.2, True), (4.5, False)])
async def test_form_of_a_remote_that_is_not_trusted_serves_when_the_node_made_the_same(
    tmp_path, level, is_own
):
    form = form_of(tmp_path / "peft", FILES, level)
    async with node(tmp_path, form, is_trusted=False) as found:
        installed, moved_bytes = await found.install()
        assert moved_bytes == FILES_BYTES
        assert installed.certificate.form == ServingForm.SERVING_FORM_ENCODED_3
        await found.evict()
        restored, moved_bytes = await found.restore()
        assert moved_bytes == (len(form.data) if is_own else FILES_BYTES)
        assert restored.certificate == installed.certificate


async def test_restore_without_the_layer_makes_the_same_form_and_does_not_measure_it(
    tmp_path, form
):
    async with node(tmp_path, form) as found:
        installed, _ = await found.install()
        await found.evict()
        found.placed.drop(digest_of(form))
        process = found.process
        moved_bytes = found.moved_bytes
    # Nothing would pass this bound now.
    process = StoreProcess(tmp_path, **process.settings | {"CODEC_MAX_KL": "0"})
    write_measured_base(tmp_path / "model")
    try:
        async with running(process, found.placed) as again:
            again.moved_bytes = moved_bytes
            restored, moved_bytes = await again.restore()
    finally:
        process.close()
    assert moved_bytes == FILES_BYTES
    assert restored.certificate == installed.certificate


async def test_form_that_is_gone_and_can_not_be_made_here_gives_way_to_one_that_can(tmp_path, form):
    foreign = made_by_another_release(form)
    async with node(tmp_path, foreign) as found:
        installed, _ = await found.install()
        assert f"sha256:{found.process.blobs()[0].name}" == digest_of(foreign)
        await found.evict()
        restored, moved_bytes = await found.restore()
        assert moved_bytes == len(foreign.data)
        assert restored.certificate == installed.certificate
        await found.evict()
        found.placed.drop(digest_of(foreign))
        restored, moved_bytes = await found.restore()
        assert moved_bytes == FILES_BYTES
        assert restored.digest == installed.digest
        assert restored.certificate.form == ServingForm.SERVING_FORM_ENCODED_3
        assert restored.certificate_digest != installed.certificate_digest


LIES = {
    "of another adapter": lambda tmp_path, form: form_of(tmp_path / "other", OTHER),
    "of another base model": lambda tmp_path, form: replace(
        form, data=form.data[:96] + b"\6" * 32 + form.data[128:]
    ),
    "of another version": lambda tmp_path, form: replace(
        form, data=form.data[:8] + b"\2" + form.data[9:]
    ),
    "with a bit flipped": lambda tmp_path, form: replace(
        form, data=form.data[:14] + b"\1" + form.data[15:]
    ),
    "noise": lambda tmp_path, form: replace(form, data=hashlib.shake_128(b"").digest(30_000)),
}


@pytest.mark.parametrize("lie", LIES)
async def test_layer_that_lies_costs_its_bytes_once_and_nothing_else(tmp_path, form, lie):
    lying = LIES[lie](tmp_path, form)
    async with node(tmp_path, lying) as found:
        installed, moved_bytes = await found.install()
        assert moved_bytes == FILES_BYTES + len(lying.data)
        assert installed.certificate.form == ServingForm.SERVING_FORM_ENCODED_3
        await found.evict()
        restored, moved_bytes = await found.restore()
        assert moved_bytes == FILES_BYTES
        assert restored.certificate == installed.certificate


@pytest.mark.parametrize(
    "change",
    [
        {"data": bytes(len(FILES.weights))},
        {"base_digest": "sha256:" + "6" * 64},
        {"codec_version": codec.VERSION + 1},
    ],
    ids=["huge", "of another base model", "of another version"],
)
async def test_layer_that_says_it_is_of_no_use_is_not_brought(tmp_path, form, change):
    async with node(tmp_path, replace(form, **change)) as found:
        installed, moved_bytes = await found.install()
        assert moved_bytes == FILES_BYTES
        assert installed.certificate.form == ServingForm.SERVING_FORM_ENCODED_3


async def test_codec_that_is_off_brings_no_layer(tmp_path, form):
    async with node(tmp_path, form, CODEC="off", FLASH_BUDGET="1000000") as found:
        installed, moved_bytes = await found.install()
        assert moved_bytes == FILES_BYTES
        assert installed.certificate.form == ServingForm.SERVING_FORM_EXACT
