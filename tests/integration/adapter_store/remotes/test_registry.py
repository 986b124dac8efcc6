"""Packages from a real docker-registry: access, cuts, restarts, absence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from edgelora.errors import NotFoundError, PermissionDeniedError, ServiceUnavailableError
from services.adapter_store.remotes.reference import parse_reference
from services.adapter_store.remotes.try_book import RetryPolicy
from tests.support.adapter_packages import (
    SamplePackage,
    exposed_packages,
    make_package,
    open_fetcher,
    partial_files,
    web_remote,
)
from tests.support.docker_registry import PASSWORD, USER, DockerRegistry
from tests.support.fake_clock import FakeClock
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.integration
MAIL = parse_reference("garage/office/mail:v1")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> SamplePackage:
    return make_package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory, package: SamplePackage
) -> Iterator[DockerRegistry]:
    server = DockerRegistry(tmp_path_factory.mktemp("registry") / "server")
    try:
        server.push(package.layout, "office/mail", "v1")
        yield server
    finally:
        server.stop()


async def test_a_package_comes_whole_and_can_be_had_again_by_its_digest(
    tmp_path, registry, package
):
    fetcher = open_fetcher(tmp_path, web_remote("registry", registry.port))
    seen: list[tuple[int, int]] = []
    fetched = await fetcher.fetch_package(
        "office", MAIL, on_progress=lambda *state: seen.append(state)
    )
    assert fetched.config_path.read_bytes() == package.config
    assert fetched.weights_path.read_bytes() == package.weights
    assert fetched.probe_path is None
    assert fetched.manifest_digest == package.digest
    assert fetched.source == f"garage/office/mail@{package.digest}"
    total = len(package.config) + len(package.weights)
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)
    assert fetcher.counters.bytes_moved == total
    fetched.discard()

    again = await fetcher.fetch_package("office", parse_reference(fetched.source))
    assert again.weights_path.read_bytes() == package.weights
    again.discard()
    assert exposed_packages(tmp_path) == partial_files(tmp_path) == []
    await fetcher.aclose()


async def test_a_path_in_the_address_is_a_prefix_of_all_repositories(tmp_path, registry, package):
    remote = web_remote("registry", registry.port).replace(
        f"{registry.port}", f"{registry.port}/office"
    )
    fetcher = open_fetcher(tmp_path, remote)
    fetched = await fetcher.fetch_package("office", parse_reference("garage/mail:v1"))
    assert fetched.manifest_digest == package.digest
    await fetcher.aclose()


async def test_a_cut_transfer_goes_on_where_it_was_cut(tmp_path, registry, package):
    async with TcpProxy(registry.port) as proxy:
        proxy.cut_after_bytes = 600_000
        fetcher = open_fetcher(tmp_path, web_remote("registry", proxy.port))
        fetched = await fetcher.fetch_package("office", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        assert fetcher.counters.num_resumes == 1
        assert proxy.bytes_back < len(package.weights) + 20_000
        await fetcher.aclose()


async def test_A22_a_cut_and_then_503_for_ever_shows_nothing_and_a_new_store_goes_on(
    tmp_path, registry, package
):
    async with TcpProxy(registry.port) as proxy:
        remotes = web_remote("registry", proxy.port)
        fetcher = open_fetcher(tmp_path, remotes)
        proxy.cut_after_bytes = 500_000
        arrived = asyncio.Event()

        def answer_503_once_half_is_here(received: int, _total: int) -> None:
            proxy.answer = (
                b"HTTP/1.1 503 X\r\ncontent-length: 0\r\nretry-after: 77\r\n"
                b"connection: close\r\n\r\n"
            )
            arrived.set()

        with pytest.raises(ServiceUnavailableError) as caught:
            await fetcher.fetch_package(
                "office",
                MAIL,
                on_progress=lambda received, total: (
                    answer_503_once_half_is_here(received, total) if received > 100_000 else None
                ),
            )
        assert arrived.is_set()
        assert caught.value.retry_after_s == pytest.approx(77, abs=1)
        assert exposed_packages(tmp_path) == []
        (left,) = partial_files(tmp_path)
        assert 400_000 < left.stat().st_size < len(package.weights)
        assert left.stat().st_mode & 0o777 == 0o600
        await fetcher.aclose()

        proxy.answer = proxy.cut_after_bytes = None
        proxy.bytes_back = 0
        restarted = open_fetcher(tmp_path, remotes)
        fetched = await restarted.fetch_package("office", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        assert restarted.counters.num_resumes == 1
        assert proxy.bytes_back < 620_000
        await restarted.aclose()


async def test_bytes_damaged_while_they_waited_are_thrown_away_and_fetched_again(
    tmp_path, registry, package
):
    async with TcpProxy(registry.port) as proxy:
        proxy.cut_after_bytes = 50_000
        fetcher = open_fetcher(tmp_path, web_remote("registry", proxy.port))
        with pytest.raises(ServiceUnavailableError):
            await fetcher.fetch_package("office", MAIL)
        (left,) = partial_files(tmp_path)
        with left.open("r+b") as file:
            file.write(b"\0")
        proxy.cut_after_bytes = None
        fetched = await fetcher.fetch_package("office", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        await fetcher.aclose()


async def test_what_is_absent_is_asked_for_once_in_30_s(tmp_path, registry):
    clock = FakeClock()
    async with TcpProxy(registry.port) as proxy:
        fetcher = open_fetcher(
            tmp_path, web_remote("registry", proxy.port), retry=RetryPolicy(), clock_s=clock
        )
        unknown = parse_reference("garage/office/mail:v2")
        for _ in range(3):
            with pytest.raises(NotFoundError):
                await fetcher.fetch_package("office", unknown)
        assert (fetcher.counters.num_attempts, fetcher.counters.num_negative_hits) == (1, 2)
        clock.advance(29.9)
        with pytest.raises(NotFoundError):
            await fetcher.fetch_package("office", unknown)
        assert fetcher.counters.num_attempts == 1
        clock.advance(0.2)
        with pytest.raises(NotFoundError):
            await fetcher.fetch_package("office", unknown)
        assert fetcher.counters.num_attempts == 2
        # Another package of the same remote is not affected.
        (await fetcher.fetch_package("office", MAIL)).discard()
        await fetcher.aclose()


async def test_a_password_opens_a_registry_and_a_wrong_one_is_the_operators_matter(
    tmp_path, package
):
    server = DockerRegistry(tmp_path / "server", htpasswd=True)
    try:
        server.push(package.layout, "office/mail", "v1")
        right, wrong = tmp_path / "right", tmp_path / "wrong"
        right.write_text(PASSWORD + "\n")
        wrong.write_text("guess\n")
        user = f'user = "{USER}"'
        fetcher = open_fetcher(
            tmp_path, web_remote("registry", server.port, user, f'password_file = "{right}"')
        )
        fetched = await fetcher.fetch_package("office", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        await fetcher.aclose()
        for lines in ((user, f'password_file = "{wrong}"'), ()):
            fetcher = open_fetcher(tmp_path, web_remote("registry", server.port, *lines))
            with pytest.raises(PermissionDeniedError, match="operator"):
                await fetcher.fetch_package("office", MAIL)
            await fetcher.aclose()
    finally:
        server.stop()


async def test_F15_a_registry_that_is_down_is_asked_once_in_5_s_and_says_when_to_come_back(
    tmp_path, package
):
    server = DockerRegistry(tmp_path / "server")
    server.push(package.layout, "office/mail", "v1")
    server.stop()
    clock = FakeClock()
    fetcher = open_fetcher(
        tmp_path, web_remote("registry", server.port), retry=RetryPolicy(), clock_s=clock
    )
    for _ in range(3):
        with pytest.raises(
            ServiceUnavailableError, match="on this node are not affected"
        ) as caught:
            await fetcher.fetch_package("office", MAIL)
        assert caught.value.retry_after_s == 5.0
    # The remote is known to be gone: another package of it does not wait for that again.
    with pytest.raises(ServiceUnavailableError):
        await fetcher.fetch_package("office", parse_reference("garage/office/other"))
    assert fetcher.counters.num_attempts == 1
    clock.advance(5.0)
    with pytest.raises(ServiceUnavailableError) as caught:
        await fetcher.fetch_package("office", MAIL)
    assert fetcher.counters.num_attempts == 2
    assert caught.value.retry_after_s == 10.0
    await fetcher.aclose()


async def test_remotes_of_other_tenants_do_not_exist(tmp_path, registry):
    fetcher = open_fetcher(tmp_path, web_remote("registry", registry.port, 'tenants = ["office"]'))
    (await fetcher.fetch_package("office", MAIL)).discard()
    messages = set()
    for reference in (MAIL, parse_reference("unknown/office/mail:v1")):
        with pytest.raises(NotFoundError) as caught:
            await fetcher.fetch_package("kids", reference)
        messages.add(caught.value.message)
    assert len(messages) == 1
    await fetcher.aclose()
