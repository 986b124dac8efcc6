"""A gateway that OpenAI's clients talk to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.gateway_bench import GatewayBench, gateway_bench
from tests.support.openai_node import OpenAiNode, openai_node


@pytest.fixture
async def bench() -> AsyncIterator[GatewayBench]:
    """Nothing runs yet."""
    async with gateway_bench() as idle:
        yield idle


@pytest.fixture
async def node(bench: GatewayBench) -> OpenAiNode:
    """Everything runs; tenant acme has the adapter `home`."""
    return await openai_node(bench)
