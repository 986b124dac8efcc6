"""A gateway that the Ollama client talks to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import ollama
import pytest

from tests.support.gateway_bench import gateway_bench
from tests.support.ollama_node import OllamaNode, ollama_node


@pytest.fixture
async def node() -> AsyncIterator[OllamaNode]:
    """Everything runs; tenant acme has the adapter `home`."""
    async with gateway_bench() as bench:
        yield await ollama_node(bench)


@pytest.fixture
async def client(node: OllamaNode) -> AsyncIterator[ollama.AsyncClient]:
    """The Python client of tenant acme."""
    async with node.client() as client:
        yield client
