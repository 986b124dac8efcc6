"""Directories and media: layouts, plain PEFT directories, unplugging, links, pipes, changes."""

from __future__ import annotations

import os
import shutil

import pytest

from edgelora.errors import (
    AdapterRejectedError,
    DataCorruptError,
    NotFoundError,
    ServiceUnavailableError,
)
from services.adapter_store.remotes.reference import parse_reference
from services.adapter_store.remotes.try_book import RetryPolicy
from tests.support.adapter_packages import (
    SamplePackage,
    exposed_packages,
    make_package,
    open_fetcher,
)
from tests.support.fake_clock import FakeClock

pytestmark = pytest.mark.integration
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> SamplePackage:
    return make_package(tmp_path_factory.mktemp("package"), tag="v1")


@pytest.fixture
def stick(tmp_path, package):
    shutil.copytree(package.layout, tmp_path / "stick" / "packed")
    shutil.copytree(package.directory, tmp_path / "stick" / "Plain.Adapter")
    return tmp_path / "stick"


@pytest.fixture
async def fetcher(tmp_path, stick):
    opened = open_fetcher(tmp_path, f'[usb]\nkind = "directory"\npath = "{stick}"\n')
    yield opened
    await opened.aclose()


@pytest.mark.parametrize(
    "reference",
    ["usb/packed", "usb/packed:v1", "usb/packed@{digest}", "usb/Plain.Adapter",
     "usb/Plain.Adapter@{digest}"],
)  # fmt: skip
async def test_layouts_and_plain_directories_hold_the_same_package(fetcher, package, reference):
    fetched = await fetcher.fetch_package(
        "office", parse_reference(reference.format(digest=package.digest))
    )
    assert fetched.config_path.read_bytes() == package.config
    assert fetched.weights_path.read_bytes() == package.weights
    assert fetched.manifest_digest == package.digest


async def test_a_probe_travels_with_its_adapter(fetcher, stick):
    (stick / "Plain.Adapter" / "probe.jsonl").write_bytes(b"{}\n")
    fetched = await fetcher.fetch_package("office", parse_reference("usb/Plain.Adapter"))
    assert fetched.probe_path is not None
    assert fetched.probe_path.read_bytes() == b"{}\n"


@pytest.mark.parametrize(
    "name", ["usb/other", "usb/packed:v2", "usb/Plain.Adapter:v1", "usb/packed/blobs"]
)
async def test_what_is_not_there_is_not_found(fetcher, name):
    with pytest.raises(NotFoundError):
        await fetcher.fetch_package("office", parse_reference(name))


@pytest.mark.parametrize("trace", ["nothing", "an empty mount point"])
async def test_an_unplugged_medium_is_unavailable_until_it_is_back(tmp_path, stick, package, trace):
    clock = FakeClock()
    fetcher = open_fetcher(
        tmp_path,
        f'[usb]\nkind = "directory"\npath = "{stick}"\n',
        retry=RetryPolicy(),
        clock_s=clock,
    )
    stick.rename(tmp_path / "unplugged")
    if trace == "an empty mount point":
        stick.mkdir()
    with pytest.raises(ServiceUnavailableError) as caught:
        await fetcher.fetch_package("office", parse_reference("usb/packed"))
    assert caught.value.retry_after_s == 5.0
    if trace == "an empty mount point":
        stick.rmdir()
    (tmp_path / "unplugged").rename(stick)
    clock.advance(5.0)
    fetched = await fetcher.fetch_package("office", parse_reference("usb/packed"))
    assert fetched.manifest_digest == package.digest
    await fetcher.aclose()


@pytest.mark.parametrize("what", ["weights", "package", "pipe", "directory"])
async def test_links_pipes_and_directories_on_a_medium_are_refused(tmp_path, stick, fetcher, what):
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the operator")
    place = stick / "Plain.Adapter"
    if what == "package":
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    else:
        (place / WEIGHTS).unlink()
        if what == "weights":
            (place / WEIGHTS).symlink_to(secret)
        elif what == "pipe":
            os.mkfifo(place / WEIGHTS)
        else:
            (place / WEIGHTS).mkdir()
    # A link where a directory has to be looks as if nothing were there.
    expected = NotFoundError if what == "package" else AdapterRejectedError
    with pytest.raises(expected):
        await fetcher.fetch_package("office", parse_reference("usb/Plain.Adapter"))
    assert exposed_packages(tmp_path) == []


async def test_A16_a_git_lfs_pointer_is_named_as_what_it_is(stick, fetcher):
    (stick / "Plain.Adapter" / WEIGHTS).write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"
    )
    with pytest.raises(AdapterRejectedError, match="git lfs pull"):
        await fetcher.fetch_package("office", parse_reference("usb/Plain.Adapter"))


async def test_T32_a_file_swapped_after_it_was_hashed_is_not_taken(stick, fetcher, package):
    def swap(received: int, _total: int) -> None:
        # The config is here, the weights come next.
        (stick / "new").write_bytes(bytes(len(package.weights)))
        (stick / "new").rename(stick / "Plain.Adapter" / WEIGHTS)

    with pytest.raises(DataCorruptError, match="checksum"):
        await fetcher.fetch_package(
            "office", parse_reference("usb/Plain.Adapter"), on_progress=swap
        )


async def test_a_medium_that_changes_a_package_behind_its_digest_is_caught(stick, fetcher, package):
    with (stick / "Plain.Adapter" / WEIGHTS).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DataCorruptError):
        await fetcher.fetch_package(
            "office", parse_reference(f"usb/Plain.Adapter@{package.digest}")
        )
