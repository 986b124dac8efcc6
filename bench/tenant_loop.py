"""Tenants that always have something to ask: so many requests in flight, one after the other."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.deployment import PlacedAdapter
from bench.load import Request, send_request
from bench.measure import RequestRecord
from bench.prompts import PromptWriter
from edgelora.generation import Priority

_MAX_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one tenant keeps asking for."""

    name: str
    adapters: Sequence[PlacedAdapter]
    """Of the tenant, in turn."""
    num_in_flight: int
    input_tokens: tuple[int, int]
    """Shortest and longest prompt."""
    output_tokens: tuple[int, int]
    """Shortest and longest output."""
    priority: Priority = "interactive"
    pause_s: float = 0.0
    """Between an answer and the next request; drawn, and this in the mean."""


@dataclass(slots=True)
class DemandLoop:
    """Sends a demand's requests until it is stopped. A refused one waits as it was told."""

    demand: Demand
    writer: PromptWriter
    seed: str
    """Same seed, same requests."""
    records: list[RequestRecord] = field(default_factory=list)
    _num_sent: int = 0
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """No more requests; those in flight go on."""
        self._stopped.set()

    async def run(self) -> None:
        """Returns once it was stopped and every request has ended."""
        async with asyncio.TaskGroup() as group:
            for lane in range(self.demand.num_in_flight):
                group.create_task(self._run_lane(random.Random(f"{self.seed} {lane}")))

    async def _run_lane(self, draw: random.Random) -> None:
        while not self._stopped.is_set():
            record = await self._send(draw)
            self.records.append(record)
            pause_s = draw.expovariate(1 / self.demand.pause_s) if self.demand.pause_s else 0.0
            if record.error is not None:
                pause_s += min(record.retry_after_s or _MAX_PAUSE_S, _MAX_PAUSE_S)
            await self._pause(pause_s)

    async def _send(self, draw: random.Random) -> RequestRecord:
        number = self._num_sent
        self._num_sent += 1
        placed = self.demand.adapters[number % len(self.demand.adapters)]
        request = Request(
            client=placed.client,
            adapter=placed.alias,
            prompt=self.writer.write(
                draw.randint(*self.demand.input_tokens), f"{self.seed} {number}"
            ),
            num_output_tokens=draw.randint(*self.demand.output_tokens),
            priority=self.demand.priority,
        )
        return await send_request(request, time.monotonic())

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()
            except TimeoutError:
                pass


async def run_for(loops: Sequence[DemandLoop], duration_s: float) -> tuple[float, float]:
    """Runs demands side by side; returns when they began and when they were stopped."""
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(loop.run())
        from_s = time.monotonic()
        await asyncio.sleep(duration_s)
        until_s = time.monotonic()
        for loop in loops:
            loop.stop()
    return from_s, until_s
