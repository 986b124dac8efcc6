"""A dashboard over the gateway's real listener."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.dashboard_client import DashboardClient, dashboard_client
from tests.support.gateway_bench import GatewayBench, gateway_bench


@pytest.fixture
async def gateway() -> AsyncIterator[GatewayBench]:
    """A gateway between stand-ins, without a monitor."""
    async with gateway_bench() as bench:
        await bench.start()
        yield bench


@pytest.fixture
async def browser(gateway: GatewayBench) -> AsyncIterator[DashboardClient]:
    """Not logged in."""
    async with dashboard_client(gateway.dashboard_port) as client:
        yield client


@pytest.fixture
async def operator(gateway: GatewayBench, browser: DashboardClient) -> DashboardClient:
    """Logged in."""
    answer = await browser.login(gateway.operator_key)
    assert answer.status_code == 303
    return browser
