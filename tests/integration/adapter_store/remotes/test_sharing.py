"""One transfer for many, and no tenant in another's way."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator

import pytest

from edgelora.errors import QueueFullError, ResourcePressureError
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

pytestmark = pytest.mark.integration
MAIL = parse_reference("garage/mail")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> SamplePackage:
    return make_package(tmp_path_factory.mktemp("package"))


@pytest.fixture
def server(tmp_path, package) -> Iterator[NginxServer]:
    shutil.copytree(package.layout, tmp_path / "site" / "mail")
    for number in range(20):
        make_package(tmp_path / str(number), weights_bytes=500_000, seed=100 + number)
        shutil.copytree(tmp_path / str(number) / "layout", tmp_path / "site" / f"mail{number}")
    running = NginxServer(tmp_path / "nginx", tmp_path / "site")
    yield running
    running.stop()


async def test_F15_many_who_want_the_same_share_one_transfer(tmp_path, server, package):
    async with TcpProxy(server.port) as proxy:
        fetcher = open_fetcher(tmp_path, web_remote("http", proxy.port))
        fetched = await asyncio.gather(
            *(fetcher.fetch_package(f"tenant{number}", MAIL) for number in range(50))
        )
        assert fetcher.counters.bytes_moved == len(package.config) + len(package.weights)
        assert proxy.bytes_back < len(package.weights) + 20_000
        # Everybody has files of their own.
        assert len({one.weights_path for one in fetched}) == 50
        fetched[0].discard()
        assert all(one.weights_path.read_bytes() == package.weights for one in fetched[1:])
        assert partial_files(tmp_path) == []
        await fetcher.aclose()


async def test_who_gives_up_does_not_take_the_others_along(tmp_path, server, package):
    async with TcpProxy(server.port) as proxy:
        proxy.stall_after_bytes = 400_000
        fetcher = open_fetcher(tmp_path, web_remote("http", proxy.port), rate_window_s=0.5)
        first, second, third = (
            asyncio.ensure_future(fetcher.fetch_package(tenant, MAIL)) for tenant in "abc"
        )
        await proxy.stalled.wait()
        proxy.heal()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        # The stalled try ends after its window, and the others' transfer goes on.
        for fetched in await asyncio.gather(second, third):
            assert fetched.weights_path.read_bytes() == package.weights
        assert fetcher.counters.num_resumes == 1
        await fetcher.aclose()


async def test_the_last_who_gives_up_ends_the_transfer_and_keeps_its_bytes(
    tmp_path, server, package
):
    async with TcpProxy(server.port) as proxy:
        proxy.stall_after_bytes = 400_000
        fetcher = open_fetcher(tmp_path, web_remote("http", proxy.port))
        fetching = [asyncio.ensure_future(fetcher.fetch_package(t, MAIL)) for t in "ab"]
        await proxy.stalled.wait()
        for one in fetching:
            one.cancel()
        await asyncio.gather(*fetching, return_exceptions=True)
        assert exposed_packages(tmp_path) == []
        assert len(partial_files(tmp_path)) == 1
        proxy.heal()
        proxy.drop_connections()
        fetched = await fetcher.fetch_package("a", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        assert fetcher.counters.num_resumes == 1
        await fetcher.aclose()


async def test_F16_a_tenant_whose_remote_hangs_delays_nobody_else(tmp_path, server, package):
    async with TcpProxy(server.port) as slow:
        slow.stall_after_bytes = 100
        remotes = (
            web_remote("http", server.port)
            + "\n"
            + web_remote("http", slow.port).replace("[garage]", "[slow]")
        )
        fetcher = open_fetcher(tmp_path, remotes)
        hanging = [
            asyncio.ensure_future(
                fetcher.fetch_package("kids", parse_reference(f"slow/mail{number}"))
            )
            for number in range(18)
        ]
        await slow.stalled.wait()
        with pytest.raises(QueueFullError) as caught:
            await fetcher.fetch_package("kids", MAIL)
        assert caught.value.retry_after_s is not None
        fetched = await fetcher.fetch_package("office", MAIL)
        assert fetched.weights_path.read_bytes() == package.weights
        assert not any(one.done() for one in hanging)
        # No more than a tenant's slots were open at once.
        assert slow.num_connections == 2
        for one in hanging:
            one.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        await fetcher.aclose()


async def test_unfinished_transfers_stay_within_their_bytes(tmp_path, server):
    async with TcpProxy(server.port) as proxy:
        proxy.cut_after_bytes = 90_000
        fetcher = open_fetcher(tmp_path, web_remote("http", proxy.port), max_partial_bytes=700_000)
        for number in range(6):
            reference = parse_reference(f"garage/mail{number}")
            with pytest.raises(Exception, match="remote"):
                await fetcher.fetch_package("office", reference)
        kept = partial_files(tmp_path)
        assert 1 < len(kept) < 6
        assert sum(file.stat().st_size for file in kept) < 700_000
        with pytest.raises(ResourcePressureError):
            await fetcher.fetch_package("office", MAIL)
        await fetcher.aclose()
