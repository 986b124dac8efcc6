"""A real gateway process beside a stand-in worker and store, and what must hold of it whatever
comes: no crash, nothing kept, nothing of a user's text in a log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc

from tests.support.door_seeds import CANARY
from tests.support.gateway_bench import GatewayBench, gateway_bench
from tests.support.http_wire import HttpWire
from tests.support.observed_gateway import Holding, ObservedGateway, observed_gateway

TENANT = "acme"
_RIGHTS = {
    "role": "trusted",
    "max_concurrent_requests": 1000,
    "max_tokens_per_minute": 10**9,
    "max_requests_per_minute": 10**6,
}
_GROWTH_BYTES = 24 * 2**20
"""What a process may gain beside what it kept while it warmed up: buffers, caches, fragments."""


class FuzzedDoors:
    """The doors, and the gateway behind them."""

    def __init__(self, bench: GatewayBench, gateway: ObservedGateway) -> None:
        self.bench = bench
        self.gateway = gateway
        self.authorization = bench.authorization(TENANT)
        self._wires: list[HttpWire] = []

    def wire(self) -> HttpWire:
        """A bare HTTP connection of the tenant."""
        wire = HttpWire(self.bench.http_port, f"Authorization: {self.authorization[0][1]}")
        self._wires.append(wire)
        return wire

    async def close_wires(self) -> None:
        """Ends all of them, between two calls."""
        await asyncio.gather(*(wire.close() for wire in self._wires))

    def cut_wires(self) -> None:
        """Ends all of them, wherever they are."""
        for wire in self._wires:
            wire.reset()

    def channel(self, address: str | None = None) -> grpc.aio.Channel:
        """A connection of its own, which shares nothing with others; by default to the gateway."""
        return grpc.aio.insecure_channel(
            address or self.bench.address("gateway"),
            options=[
                ("grpc.default_authority", "localhost"),
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )

    async def check(self, before: Holding) -> Holding:
        """What must hold when all clients have gone; `before` is what the gateway held."""
        assert self.gateway.is_alive
        after = await self.gateway.holding_when_idle(before)
        assert after.rss_bytes - before.rss_bytes < _GROWTH_BYTES, (before, after)
        log = self.gateway.log_text()
        assert CANARY not in log
        assert self.bench.keys[TENANT] not in log
        unexpected = self.gateway.log("unexpected_error")
        assert not unexpected, json.dumps(unexpected[:3])
        return after


async def spread(count: int, num_workers: int, work: Callable[[int, int], Awaitable[None]]) -> None:
    """Runs `work(worker, index)` for every index, each worker one after the other."""
    indices = iter(range(count))

    async def run(worker: int) -> None:
        for index in indices:
            await work(worker, index)

    async with asyncio.TaskGroup() as group:
        for worker in range(num_workers):
            group.create_task(run(worker))


@asynccontextmanager
async def fuzzed_doors() -> AsyncIterator[FuzzedDoors]:
    """Everything runs; the tenant has the adapter `home` and the classifier `intents`."""
    async with gateway_bench() as bench:
        await bench.start_store()
        await bench.start_worker()
        await bench.start_encoder()
        encoder = bench.address("encoder")
        bench.start_scheduler(MAX_WAITING_PER_TENANT="1000", ENCODER_WORKERS=f"e0={encoder}")
        gateway = await observed_gateway(bench, ENCODER_ADDRESS=encoder)
        client = await bench.client(TENANT, **_RIGHTS)
        files = bench.directory / "adapter"
        files.mkdir()
        (files / "adapter_config.json").write_text("{}")
        (files / "adapter_model.safetensors").write_bytes(bytes(64))
        await client.register_adapter(files, alias="home")
        bench.store.add_encoder_adapter(TENANT, "intents")
        doors = FuzzedDoors(bench, gateway)
        try:
            yield doors
        finally:
            doors.cut_wires()  # a test that failed left them anywhere
