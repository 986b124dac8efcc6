"""Image layouts on a real static server: TLS, Range, and a link that dies, stalls and crawls."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator

import pytest

from edgelora.errors import PermissionDeniedError, ServiceUnavailableError
from services.adapter_store.remotes.reference import parse_reference
from tests.support.adapter_packages import (
    SamplePackage,
    exposed_packages,
    make_package,
    open_fetcher,
    partial_files,
    web_remote,
)
from tests.support.nginx_server import NginxServer
from tests.support.tcp_proxy import TcpProxy
from tests.support.tls_certificate import make_certificate

pytestmark = pytest.mark.integration
MAIL = parse_reference("garage/mail")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> SamplePackage:
    return make_package(tmp_path_factory.mktemp("package"))


@pytest.fixture
def site(tmp_path, package):
    shutil.copytree(package.layout, tmp_path / "site" / "mail")
    return tmp_path / "site"


@pytest.fixture
def server(tmp_path, site) -> Iterator[NginxServer]:
    running = NginxServer(tmp_path / "nginx", site)
    yield running
    running.stop()


async def test_the_server_dies_in_the_middle_and_the_rest_comes_when_it_is_back(
    tmp_path, server, package
):
    async with TcpProxy(server.port) as proxy:
        proxy.stall_after_bytes = 400_000
        fetcher = open_fetcher(tmp_path, web_remote("http", proxy.port))
        fetching = asyncio.ensure_future(fetcher.fetch_package("office", MAIL))
        await proxy.stalled.wait()
        server.stop()
        proxy.stall_after_bytes = None
        proxy.drop_connections()
        with pytest.raises(ServiceUnavailableError):
            await fetching
        assert exposed_packages(tmp_path) == []

        server.start()
        proxy.bytes_back = 0
        fetched = await fetcher.fetch_package("office", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        assert fetcher.counters.num_resumes == 1
        assert proxy.bytes_back < 750_000
        await fetcher.aclose()


async def test_a_server_without_range_sends_all_of_it_again(tmp_path, site, package):
    server = NginxServer(tmp_path / "nginx", site, directives="max_ranges 0;")
    try:
        async with TcpProxy(server.port) as proxy:
            proxy.cut_after_bytes = 600_000
            fetcher = open_fetcher(tmp_path, web_remote("http", proxy.port))
            fetching = asyncio.ensure_future(
                fetcher.fetch_package(
                    "office", MAIL, on_progress=lambda received, _: proxy.heal(received > 100_000)
                )
            )
            fetched = await fetching
            assert fetched.weights_path.read_bytes() == package.weights
            assert fetcher.counters.num_resumes == 0
            assert proxy.bytes_back > 1_500_000
            await fetcher.aclose()
    finally:
        server.stop()


async def test_a_file_that_changed_is_not_glued_to_the_rest_of_another(
    tmp_path, site, server, package
):
    blob = max((site / "mail" / "blobs" / "sha256").iterdir(), key=lambda file: file.stat().st_size)
    good = blob.read_bytes()
    blob.write_bytes(bytes(len(good)))
    async with TcpProxy(server.port) as proxy:
        proxy.cut_after_bytes = 300_000
        fetcher = open_fetcher(tmp_path, web_remote("http", proxy.port))

        def replace_the_file(received: int, _total: int) -> None:
            if received > 100_000 and proxy.cut_after_bytes is not None:
                (site / "new").write_bytes(good)
                # The server's validators are made of time and size.
                os.utime(site / "new", (1, 1))
                (site / "new").rename(blob)
                proxy.heal(True)

        fetched = await fetcher.fetch_package("office", MAIL, on_progress=replace_the_file)
        assert fetched.weights_path.read_bytes() == good == package.weights
        assert fetcher.counters.num_resumes == 0
        await fetcher.aclose()


@pytest.mark.parametrize("fault", ["stall_after_bytes", "crawl_after_bytes"])
async def test_F16_a_remote_below_the_least_rate_is_given_up_and_its_bytes_kept(
    tmp_path, server, fault
):
    async with TcpProxy(server.port) as proxy:
        setattr(proxy, fault, 50_000)
        fetcher = open_fetcher(tmp_path, web_remote("http", proxy.port), rate_window_s=0.3)
        with pytest.raises(ServiceUnavailableError, match="too slow"):
            await fetcher.fetch_package("office", MAIL)
        assert proxy.stalled.is_set()
        (left,) = partial_files(tmp_path)
        assert 40_000 < left.stat().st_size < 60_000
        await fetcher.aclose()


async def test_a_caller_without_time_gets_unavailable_and_its_bytes_stay(tmp_path, server):
    async with TcpProxy(server.port) as proxy:
        proxy.stall_after_bytes = 400_000
        fetcher = open_fetcher(tmp_path, web_remote("http", proxy.port))
        with pytest.raises(ServiceUnavailableError, match="is kept") as caught:
            await fetcher.fetch_package("office", MAIL, within_s=0.5)
        assert caught.value.retry_after_s is not None
        (left,) = partial_files(tmp_path)
        assert left.stat().st_size > 300_000
        assert exposed_packages(tmp_path) == []
        await fetcher.aclose()


async def test_tls_by_the_operators_certificate(tmp_path, site, package):
    certificate = make_certificate(tmp_path)
    server = NginxServer(tmp_path / "nginx", site, certificate=certificate)
    try:
        trusted = (
            f'[garage]\nkind = "http"\nurl = "https://127.0.0.1:{server.port}"\n'
            f'ca_file = "{certificate.certificate}"\n'
        )
        fetcher = open_fetcher(tmp_path, trusted)
        fetched = await fetcher.fetch_package("office", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        await fetcher.aclose()
        wrong_host = trusted.replace("127.0.0.1", "localhost")
        system_roots = trusted.replace("ca_file", "# ca_file")
        for remotes in (wrong_host, system_roots):
            fetcher = open_fetcher(tmp_path, remotes)
            with pytest.raises(ServiceUnavailableError, match="certificate"):
                await fetcher.fetch_package("office", MAIL)
            await fetcher.aclose()
    finally:
        server.stop()


async def test_a_password_opens_a_static_server(tmp_path, site, package):
    server = NginxServer(tmp_path / "nginx", site, password=("car", "secret"))
    try:
        (tmp_path / "password").write_text("secret")
        opened = web_remote(
            "http", server.port, 'user = "car"', f'password_file = "{tmp_path}/password"'
        )
        fetcher = open_fetcher(tmp_path, opened)
        fetched = await fetcher.fetch_package("office", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        await fetcher.aclose()
        fetcher = open_fetcher(tmp_path, web_remote("http", server.port))
        with pytest.raises(PermissionDeniedError):
            await fetcher.fetch_package("office", MAIL)
        await fetcher.aclose()
    finally:
        server.stop()
