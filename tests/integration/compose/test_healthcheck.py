"""The container health check against real gRPC servers."""

import asyncio
import os
import socket
import sys

import pytest

from services.chassis.healthcheck import is_serving
from services.chassis.server import ServiceHost

pytestmark = pytest.mark.integration


async def exit_status(*arguments):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.chassis.healthcheck", *arguments, env=os.environ
    )
    return await process.wait()


async def test_follows_readiness_over_tcp_and_unix_sockets(tmp_path):
    addresses = ["127.0.0.1:0", f"unix:{tmp_path}/s.sock"]
    host = ServiceHost(addresses)
    async with host.serving():
        targets = [f"127.0.0.1:{host.bound_ports[0]}", addresses[1]]
        assert [await is_serving(target) for target in targets] == [False, False]
        assert await exit_status(targets[0]) == 1
        await host.set_ready(True)
        assert [await is_serving(target) for target in targets] == [True, True]
        assert await exit_status(targets[0]) == 0
    assert not await is_serving(targets[1], timeout_s=0.5)


async def test_nobody_there_is_not_serving(tmp_path):
    assert await exit_status(f"unix:{tmp_path}/nobody.sock") == 1


async def test_a_server_that_never_accepts_is_not_serving():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not await is_serving(f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.3)


async def test_wrong_usage_has_a_status_of_its_own():
    assert await exit_status() == 2
