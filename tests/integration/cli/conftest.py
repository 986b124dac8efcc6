"""The command in this process, against a real gateway beside a stand-in store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from edgelora.cli.main import run
from tests.support.gateway_bench import GatewayBench, gateway_bench

CONFIG, WEIGHTS, PROBE = "adapter_config.json", "adapter_model.safetensors", "probe.jsonl"


class Command:
    """`edgelora ...` as the tenant acme."""

    def __init__(self, gateway: GatewayBench, capsys) -> None:
        self.gateway = gateway
        self._capsys = capsys
        self.err = ""

    async def __call__(self, *arguments: str, status: int = 0) -> str:
        """Runs it; returns what it printed."""
        address = ("--address", self.gateway.address("gateway"))
        assert await asyncio.to_thread(run, [*arguments, *address]) == status
        out, self.err = self._capsys.readouterr()
        return out

    async def until_ready(self, service: str) -> None:
        """Returns when the gateway has seen the service; the test's own limit ends the wait."""
        client = await self.gateway.client()
        while not any(
            each.name == service and each.is_ready for each in (await client.status()).services
        ):
            pass

    async def json(self, *arguments: str) -> Any:
        """Runs it with --json; returns the document."""
        return json.loads(await self(*arguments, "--json"))


@pytest.fixture
async def command(monkeypatch, capsys) -> AsyncIterator[Command]:
    with capture_logs():  # of the services in this process, which would be mixed with the output
        async with gateway_bench() as gateway:
            await gateway.start()
            await gateway.client()
            monkeypatch.setenv("EDGELORA_API_KEY", gateway.keys["acme"])
            yield Command(gateway, capsys)


@pytest.fixture
def adapter(tmp_path):
    """Two files as the client reads them; what is in them is the store's business."""
    directory = tmp_path / "mail"
    directory.mkdir()
    (directory / CONFIG).write_bytes(b"{}")
    (directory / WEIGHTS).write_bytes(b"weights")
    return directory
