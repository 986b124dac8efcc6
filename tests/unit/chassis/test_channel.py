"""Connecting to a node or service that is busy."""

from __future__ import annotations

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from edgelora.connection import NodeConnection
from edgelora.errors import DeadlineExceededError
from services.chassis.channel import open_channel, translate_errors
from tests.support.health_only_worker import make_worker
from tests.support.tcp_proxy import TcpProxy


class _HealthClient(NodeConnection):
    async def check(self):
        with self._clear_errors():
            return await _check(self._channel)


async def _check(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    return await stub.Check(health_pb2.HealthCheckRequest(), timeout=60)


@pytest.fixture
async def slow_port():
    """A port on which a server answers 0.3 s after it was connected to."""
    host = make_worker("127.0.0.1:0")
    async with host.serving(), TcpProxy(host.bound_ports[0]) as proxy:
        proxy.late_by_s = 0.3
        yield proxy.port


async def test_a_service_that_answers_late_is_there(slow_port):
    async with open_channel(f"127.0.0.1:{slow_port}") as channel:
        assert await _check(channel)


async def test_a_node_that_answers_late_is_there(slow_port):
    async with _HealthClient(f"127.0.0.1:{slow_port}") as client:
        assert await client.check()


def test_a_passed_deadline_is_told_in_our_own_words_with_the_remedy():
    for words in ("Deadline Exceeded", "Stream removed (Deadline Exceeded)", None):
        error = grpc.aio.AioRpcError(
            grpc.StatusCode.DEADLINE_EXCEEDED, grpc.aio.Metadata(), grpc.aio.Metadata(), words
        )
        with pytest.raises(DeadlineExceededError, match="allow more time"), translate_errors():
            raise error
