"""Benches for the gateway's integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.gateway_bench import GatewayBench, gateway_bench


@pytest.fixture
async def bench() -> AsyncIterator[GatewayBench]:
    """Nothing runs yet."""
    async with gateway_bench() as idle:
        yield idle


@pytest.fixture
async def gateway(bench: GatewayBench) -> GatewayBench:
    """Everything runs, with default settings."""
    await bench.start()
    return bench
