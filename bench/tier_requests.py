"""Requests that find their adapter in one tier or another, and what each of them took."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

from bench.deployment import PlacedAdapter
from bench.prompts import PromptWriter
from bench.result import BenchError
from edgelora.client import EdgeLoraClient
from edgelora.generation import Delta, GenerationOptions, Usage
from edgelora.v1.adapter_pb2 import AdapterUsage, LoadStages

TIERS = ("memory", "flash", "remote")
_OUTPUT_TOKENS = 2
_TIMEOUT_S = 300.0
_REPORT_LIMIT_S = 10.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request, seen by its client."""

    first_token_s: float
    """From sending."""
    ready_s: float
    """What its adapter's way into a slot took; the node's own figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierAnswer:
    """One request, and where it found its adapter."""

    tier: str
    answer: Answer
    stages: LoadStages | None
    """Of the load it waited for; None in memory."""
    bytes_read: int
    """From flash."""
    remote_bytes: int
    """From the remote."""


async def ask(client: EdgeLoraClient, adapter: str | None, prompt: str) -> Answer:
    """Sends a short request and reads it to its end."""
    events = client.generate(
        prompt,
        adapters=() if adapter is None else adapter,
        options=GenerationOptions(max_tokens=_OUTPUT_TOKENS, ignore_eos=True),
        timeout_s=_TIMEOUT_S,
    )
    started_s = time.perf_counter()
    first_token_s: float | None = None
    ready_s: float | None = None
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Delta) and event.token_ids and first_token_s is None:
                first_token_s = time.perf_counter() - started_s
            elif isinstance(event, Usage):
                ready_s = event.adapter_load_s
    if first_token_s is None or ready_s is None:
        raise BenchError("a request ended without a token or without its usage")
    return Answer(first_token_s=first_token_s, ready_s=ready_s)


async def ask_tier(
    placed: PlacedAdapter, writer: PromptWriter, length: int, seed: str
) -> TierAnswer:
    """Asks for an adapter alone; the node's counters tell which tier it was found in."""
    before = await _usage(placed)
    answer = await ask(placed.client, placed.alias, writer.write(length, seed))
    after = await _usage(placed)
    tier = next(name for name in TIERS if _hits(after, name) > _hits(before, name))
    if tier == "memory":
        return TierAnswer(tier=tier, answer=answer, stages=None, bytes_read=0, remote_bytes=0)
    # Workers report their loads a moment later.
    limit_s = time.monotonic() + _REPORT_LIMIT_S
    while after.num_loads == before.num_loads:
        if time.monotonic() > limit_s:
            raise BenchError("the worker did not report a load: see its log")
        await asyncio.sleep(_POLL_S)
        after = await _usage(placed)
    return TierAnswer(
        tier=tier,
        answer=answer,
        stages=after.last_load,
        bytes_read=after.flash_bytes_read - before.flash_bytes_read,
        remote_bytes=after.remote_bytes_read - before.remote_bytes_read,
    )


async def _usage(placed: PlacedAdapter) -> AdapterUsage:
    return (await placed.client.get_adapter(placed.alias)).adapter.usage


def _hits(usage: AdapterUsage, tier: str) -> int:
    count: int = getattr(usage, f"num_{tier}_hits")
    return count
