"""Encoded forms in packages of real remotes: wanted, known, gone, damaged, cut."""

from __future__ import annotations

import asyncio
import random

import pytest

from edgelora.adapter_format.codec import VERSION
from edgelora.adapter_package import Blob, EncodedForm
from edgelora.errors import NotFoundError, ServiceUnavailableError
from services.adapter_store.remotes.fetched import FetchedEncoded, FetchedPackage
from services.adapter_store.remotes.reference import parse_reference
from services.adapter_store.remotes.try_book import RetryPolicy
from tests.support.adapter_packages import (
    exposed_packages,
    make_package,
    open_fetcher,
    partial_files,
)
from tests.support.placed_packages import KINDS, NAME, placed_package
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.integration

BASE, OTHER_BASE = "sha256:" + "1" * 64, "sha256:" + "2" * 64
ENCODED, OTHER = random.Random(5).randbytes(200_000), random.Random(6).randbytes(200_000)
KNOWN = Blob.of(ENCODED)
MAIL = parse_reference(NAME)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    forms = [
        EncodedForm(base_digest=base_digest, codec_version=VERSION, data=data)
        for base_digest, data in ((OTHER_BASE, OTHER), (BASE, ENCODED))
    ]
    return make_package(tmp_path_factory.mktemp("package"), encoded=forms)


@pytest.fixture(params=KINDS)
def placed(request, tmp_path, package):
    with placed_package(request.param, tmp_path, package.layout) as found:
        yield found


@pytest.fixture
async def fetcher(tmp_path, placed):
    opened = open_fetcher(tmp_path, placed.remotes)
    yield opened
    await opened.aclose()


def files_bytes(package):
    return len(package.config) + len(package.weights)


async def fetch_known(fetcher, blob=KNOWN, tenant_id="office"):
    return await fetcher.fetch_encoded(
        tenant_id, MAIL, digest=blob.digest, size_bytes=blob.size_bytes
    )


async def test_form_for_the_base_model_comes_with_the_files(fetcher, package):
    seen: list[tuple[int, int]] = []
    fetched = await fetcher.fetch_package(
        "office", MAIL, encoded_for=BASE, on_progress=lambda *state: seen.append(state)
    )
    assert fetched.encoded_path.read_bytes() == ENCODED
    assert fetched.weights_path.read_bytes() == package.weights
    total = files_bytes(package) + len(ENCODED)
    assert seen[-1] == (total, total)
    assert fetched.total_bytes == fetcher.counters.bytes_moved == total


@pytest.mark.parametrize("base_digest", [None, "sha256:" + "3" * 64])
async def test_form_for_no_base_model_of_ours_stays_where_it_is(fetcher, package, base_digest):
    fetched = await fetcher.fetch_package("office", MAIL, encoded_for=base_digest)
    assert fetched.encoded_path is None
    assert fetcher.counters.bytes_moved == files_bytes(package)


async def test_form_of_a_remote_that_is_not_trusted_comes_only_when_it_is_known(tmp_path, package):
    with placed_package("directory", tmp_path, package.layout, is_trusted=False) as placed:
        fetcher = open_fetcher(tmp_path, placed.remotes)
        fetched = await fetcher.fetch_package("office", MAIL, encoded_for=BASE)
        assert fetched.encoded_path is None
        assert fetcher.counters.bytes_moved == files_bytes(package)
        assert (await fetch_known(fetcher)).path.read_bytes() == ENCODED
        await fetcher.aclose()


async def test_known_form_comes_alone_and_moves_only_its_bytes(tmp_path, fetcher):
    fetched = await fetch_known(fetcher)
    assert isinstance(fetched, FetchedEncoded)
    assert fetched.path.read_bytes() == ENCODED
    assert fetched.total_bytes == fetcher.counters.bytes_moved == len(ENCODED)
    fetched.discard()
    assert exposed_packages(tmp_path) == partial_files(tmp_path) == []


async def test_many_who_want_the_same_form_share_one_transfer(fetcher):
    fetched = await asyncio.gather(*(fetch_known(fetcher, tenant_id=f"t{n}") for n in range(10)))
    assert all(one.path.read_bytes() == ENCODED for one in fetched)
    assert fetcher.counters.bytes_moved < 10 * len(ENCODED)


@pytest.mark.parametrize(
    "blob", [Blob(KNOWN.digest, KNOWN.size_bytes + 1), Blob("sha256:" + "0" * 64, len(ENCODED))]
)
async def test_form_that_the_package_does_not_hold_costs_the_files(fetcher, package, blob):
    fetched = await fetch_known(fetcher, blob)
    assert isinstance(fetched, FetchedPackage)
    assert fetched.weights_path.read_bytes() == package.weights
    assert fetched.encoded_path is None
    assert fetcher.counters.bytes_moved == files_bytes(package)


@pytest.mark.parametrize("fault", ["drop", "spoil"])
async def test_form_that_is_gone_or_damaged_costs_no_installation_and_no_restore(
    tmp_path, placed, package, fault
):
    getattr(placed, fault)(KNOWN.digest)
    seen: list[tuple[int, int]] = []
    # Failures stand, as in a store: the file that is bad must not keep the others away.
    fetcher = open_fetcher(tmp_path, placed.remotes, retry=RetryPolicy())
    fetched = await fetcher.fetch_package(
        "office", MAIL, encoded_for=BASE, on_progress=lambda *state: seen.append(state)
    )
    assert fetched.encoded_path is None
    assert fetched.weights_path.read_bytes() == package.weights
    assert seen[-1] == (files_bytes(package), files_bytes(package))
    assert fetched.total_bytes == files_bytes(package)
    restored = await fetch_known(fetcher)
    assert isinstance(restored, FetchedPackage)
    assert restored.weights_path.read_bytes() == package.weights
    assert len(exposed_packages(tmp_path)) == 2
    assert sum(file.stat().st_size for file in partial_files(tmp_path)) == 0
    await fetcher.aclose()


async def test_remote_that_is_gone_is_told_at_once(tmp_path, package):
    with placed_package("http", tmp_path, package.layout) as placed:
        fetcher = open_fetcher(tmp_path, placed.remotes, retry=RetryPolicy())
    with pytest.raises(ServiceUnavailableError):
        await fetch_known(fetcher)
    assert fetcher.counters.num_attempts == 1
    with pytest.raises(NotFoundError):
        await fetcher.fetch_encoded(
            "office", parse_reference("other/mail"), digest=KNOWN.digest, size_bytes=1
        )
    await fetcher.aclose()


async def test_cut_form_goes_on_where_it_was_cut(tmp_path, package):
    with placed_package("http", tmp_path, package.layout) as placed:
        port = int(placed.remotes.split("127.0.0.1:")[1].split('"')[0])
        async with TcpProxy(port) as proxy:
            proxy.cut_after_bytes = 150_000
            remotes = placed.remotes.replace(str(port), str(proxy.port))
            fetcher = open_fetcher(tmp_path, remotes)
            fetched = await fetch_known(fetcher)
            assert isinstance(fetched, FetchedEncoded)
            assert fetched.path.read_bytes() == ENCODED
            assert fetcher.counters.num_resumes == 1
            assert fetcher.counters.bytes_moved == len(ENCODED)
            await fetcher.aclose()
