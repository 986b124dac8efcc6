"""The gateway before the real adapter store: what a tenant is told is what the store keeps."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterRejectedError,
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    from_rpc_error,
)
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.encoding_pb2 import Task
from tests.integration.adapter_store.store_process import StoreProcess
from tests.support.adapter_files import AdapterFiles, good_adapter
from tests.support.tiny_encoder import classifier_files, save_tiny_encoder

pytestmark = pytest.mark.integration


@pytest.fixture
async def gateway(bench, tmp_path):
    """A real store on tiny models, with a directory for a remote; the worker is a stand-in."""
    remotes = tmp_path / "remotes.toml"
    remotes.write_text(f'[usb]\nkind = "directory"\npath = "{tmp_path}/usb"\n')
    (tmp_path / "usb").mkdir()
    save_tiny_encoder(tmp_path / "encoder")
    store = StoreProcess(
        tmp_path,
        SEAL_KEY_FILE=str(bench.directory / "seal.key"),
        REMOTES_FILE=str(remotes),
        ENCODER_MODEL_DIRECTORY=str(tmp_path / "encoder"),
    )
    try:
        await store.start()
        await bench.start_worker()
        bench.start_scheduler(STORE_ADDRESS=store.address)
        await bench.start_gateway(STORE_ADDRESS=store.address)
        yield bench
    finally:
        store.close()


def save(directory: Path, files: AdapterFiles) -> Path:
    directory.mkdir()
    (directory / "adapter_config.json").write_bytes(files.config)
    (directory / "adapter_model.safetensors").write_bytes(files.weights)
    if files.head:
        (directory / "head.json").write_bytes(files.head)
    return directory


async def test_an_answer_names_the_certificate_the_store_keeps(gateway, tmp_path):
    client = await gateway.client()
    first = await client.register_adapter(
        save(tmp_path / "a", good_adapter(seed=1)), alias="mail", expected_generation=0
    )
    second_files = save(tmp_path / "b", good_adapter(seed=2))
    with pytest.raises(AlreadyExistsError):
        await client.register_adapter(second_files, alias="mail", expected_generation=0)
    second = await client.register_adapter(second_files, alias="mail", expected_generation=1)
    assert second.alias.generation == 2

    events = [event async for event in client.generate("Hi", adapters="mail", user="ann")]
    (used,) = events[0].adapters
    found = await client.get_adapter("mail")
    assert used.digest == found.adapter.digest == second.adapter.digest
    assert used.certificate_digest == found.adapter.certificate_digest != ""
    assert (used.generation, used.source) == (2, "upload")
    assert used.parent_digest == first.adapter.digest
    assert found.adapter.certificate.document
    assert found.adapter.is_on_flash
    assert found.adapter.flash_bytes > 0
    assert found.adapter.usage.num_flash_hits == 1
    assert (await client.status()).tiers.num_flash_hits == 1
    assert (await client.status()).tiers.num_adapters == 2


async def test_a_classifier_goes_up_with_its_head_and_comes_back_with_its_labels(gateway, tmp_path):
    client = await gateway.client()
    directory = save(tmp_path / "a", classifier_files(["pay", "move"]))
    registered = await client.register_adapter(directory, alias="sort")
    assert list(registered.adapter.head.labels) == ["pay", "move"]
    found = (await client.get_adapter("sort")).adapter
    assert (found.task, list(found.head.labels)) == (Task.TASK_ENCODE, ["pay", "move"])
    (directory / "head.json").write_bytes(b"{}")
    with pytest.raises(AdapterRejectedError, match="labels and pooling"):
        await client.register_adapter(directory)
    with pytest.raises(AdapterIncompatibleError, match="Classify or Embed"):
        [event async for event in client.generate("Hi", adapters="sort")]


async def test_pages_are_the_stores_and_pins_stay(gateway, tmp_path):
    client = await gateway.client()
    for seed in range(3):
        files = save(tmp_path / f"{seed}", good_adapter(seed=seed))
        await client.register_adapter(files, alias=f"a{seed}")
    pages = [page async for page in client.adapter_pages(page_size=2)]
    assert [[adapter.aliases[0] for adapter in page.adapters] for page in pages] == [
        ["a2", "a1"],
        ["a0"],
    ]
    assert [alias.name for page in pages for alias in page.aliases] == ["a1", "a2", "a0"]
    assert (await client.pin_adapter("a1")).is_pinned
    listed = await client.list_adapters()
    assert [adapter.is_pinned for adapter in listed.adapters] == [False, True, False]
    assert not (await client.pin_adapter("a1", is_pinned=False)).is_pinned
    assert [alias.name for alias in listed.aliases] == ["a0", "a1", "a2"]


async def test_a_package_of_a_directory_is_installed_and_told_of(gateway, tmp_path):
    client = await gateway.client()
    save(tmp_path / "usb" / "mail", good_adapter())
    progress = []
    installed = await client.install_adapter(
        "usb/mail",
        alias="mail",
        expected_generation=0,
        on_progress=lambda received, total: progress.append((received, total)),
    )
    assert installed.is_new
    assert progress
    assert progress[-1][0] == progress[-1][1] > 0
    events = [event async for event in client.generate("Hi", adapters="mail")]
    (used,) = events[0].adapters
    assert used.source.startswith("usb/mail@sha256:")
    found = await client.get_adapter("mail")
    assert found.adapter.lineage.source == used.source
    assert found.adapter.usage.remote_bytes_read == progress[-1][1]
    for package, error in (
        ("usb/none", NotFoundError),
        ("elsewhere/mail", NotFoundError),
        ("usb/mail/", InvalidRequestError),
    ):
        with pytest.raises(error) as caught:
            await client.install_adapter(package)
        assert caught.value.field == "package"
    assert (await client.status()).usage.num_running == 0


async def test_a_page_token_nobody_gave_is_refused(gateway):
    await gateway.client()
    stub = await gateway.stub()
    request = pb.ListAdaptersRequest(page_token="nonsense")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.ListAdapters(request, metadata=gateway.authorization(), timeout=10)
    error = from_rpc_error(caught.value)
    assert isinstance(error, InvalidRequestError)
    assert error.field == "page_token"
