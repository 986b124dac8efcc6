"""A gateway with an adapter, and what speaks OpenAI's API to it as tenant acme."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai

from tests.support.gateway_bench import GatewayBench
from tests.support.http_wire import HttpWire

TENANT = "acme"
ADAPTER = "home"
BASE = "stand-in"
HELLO = [{"role": "user", "content": "Hi."}]


class OpenAiNode:
    """The bench and its clients."""

    def __init__(self, bench: GatewayBench, digest: str) -> None:
        self.bench = bench
        self.worker = bench.worker
        self.digest = digest
        """Of the adapter."""
        self.root = f"http://127.0.0.1:{bench.http_port}"
        self.url = f"{self.root}/v1"

    @property
    def key(self) -> str:
        """Of tenant acme."""
        return self.bench.keys[TENANT]

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[openai.AsyncOpenAI]:
        """The Python client as its users make it, but without retries."""
        settings = {"api_key": self.key, "base_url": self.url, "max_retries": 0, **options}
        async with openai.AsyncOpenAI(**settings) as client:
            yield client

    @asynccontextmanager
    async def http(self, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        """A plain HTTP client that sends the key; paths start after /v1."""
        sent = {"authorization": f"Bearer {self.key}", **headers}
        async with httpx.AsyncClient(base_url=self.url, headers=sent, trust_env=False) as client:
            yield client

    def wire(self, *headers: str) -> HttpWire:
        """A bare connection that sends the key."""
        return HttpWire(self.bench.http_port, f"Authorization: Bearer {self.key}", *headers)

    async def still_serves(self) -> None:
        """A usual request gets its usual answer."""
        async with self.http() as http:
            answer = await http.post("/chat/completions", json=chat_body())
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["message"]["content"] == "Hello there."


def chat_body(**fields: Any) -> dict[str, Any]:
    """A chat completion of the base model."""
    return {"model": BASE, "messages": HELLO, **fields}


def events_of(text: str) -> list[dict[str, Any] | str]:
    """The data of server-sent events, parsed; `[DONE]` stays a word."""
    found: list[dict[str, Any] | str] = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        (data,) = (line.removeprefix("data: ") for line in block.split("\n") if "data: " in line)
        found.append(data if data == "[DONE]" else json.loads(data))
    return found


async def openai_node(
    bench: GatewayBench, *, has_encoder: bool = False, **settings: str
) -> OpenAiNode:
    """Starts everything on a bench and registers the adapter."""
    await (bench.start_with_encoder(**settings) if has_encoder else bench.start(**settings))
    client = await bench.client(TENANT)
    files = bench.directory / "adapter"
    files.mkdir()
    (files / "adapter_config.json").write_text("{}")
    (files / "adapter_model.safetensors").write_bytes(bytes(4096))
    registered = await client.register_adapter(files, alias=ADAPTER, description="switches lights")
    return OpenAiNode(bench, registered.adapter.digest)
