"""A gateway with an adapter, and what speaks Ollama's API to it as tenant acme."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import ollama

from tests.support.gateway_bench import GatewayBench
from tests.support.http_wire import HttpWire

TENANT = "acme"
ADAPTER = "home"
BASE = "stand-in"


class OllamaNode:
    """The bench and its clients."""

    def __init__(self, bench: GatewayBench, digest: str) -> None:
        self.bench = bench
        self.worker = bench.worker
        self.digest = digest
        """Of the adapter."""
        self.url = f"http://127.0.0.1:{bench.http_port}"
        self.headers = {"Authorization": f"Bearer {bench.keys[TENANT]}"}

    @asynccontextmanager
    async def client(self, **options) -> AsyncIterator[ollama.AsyncClient]:
        """The Python client as its users make it."""
        async with ollama.AsyncClient(self.url, headers=self.headers, **options) as client:
            yield client

    def wire(self) -> HttpWire:
        """A bare connection that sends the key."""
        return HttpWire(
            self.bench.http_port, *(f"{name}: {value}" for name, value in self.headers.items())
        )


async def ollama_node(bench: GatewayBench, **settings: str) -> OllamaNode:
    """Starts everything on a bench and registers the adapter."""
    await bench.start(**settings)
    client = await bench.client(TENANT)
    files = bench.directory / "adapter"
    files.mkdir()
    (files / "adapter_config.json").write_text("{}")
    (files / "adapter_model.safetensors").write_bytes(bytes(4096))
    registered = await client.register_adapter(files, alias=ADAPTER, description="switches lights")
    return OllamaNode(bench, registered.adapter.digest)
