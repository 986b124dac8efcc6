"""The gaps between the tokens of running streams, while other requests come or adapters load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import pairwise

from bench.deployment import PlacedAdapter
from bench.prompts import PromptWriter
from edgelora.generation import Delta, GenerationOptions

_NUM_STREAMS = 4
_PROMPT_TOKENS = 16
_REQUEST_PERIOD_S = 0.1
_REQUEST_TOKENS = 8
_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Segment:
    """One run of the streams."""

    gaps_s: list[float]
    """Between the tokens of each stream, all streams together."""
    num_requests: int
    """Short requests sent meanwhile."""


async def run_segment(
    held: PlacedAdapter,
    asked: Sequence[PlacedAdapter],
    writer: PromptWriter,
    seed: str,
    num_tokens: int,
) -> Segment:
    """Runs streams with one adapter, and a short request ten times a second, `asked` in turn.

    Nothing is asked when `asked` is empty.
    """
    streams = [
        asyncio.create_task(_stream(held, writer.write(_PROMPT_TOKENS, f"{seed} {n}"), num_tokens))
        for n in range(_NUM_STREAMS)
    ]
    asking: list[asyncio.Task[list[float]]] = []
    try:
        while not all(stream.done() for stream in streams):
            if asked:
                placed = asked[len(asking) % len(asked)]
                prompt = writer.write(_REQUEST_TOKENS, f"{seed} asked {len(asking)}")
                asking.append(asyncio.create_task(_stream(placed, prompt, 1)))
            await asyncio.wait(streams, timeout=_REQUEST_PERIOD_S)
        gaps_s = [gap for stream in streams for gap in await stream]
        await asyncio.gather(*asking)
    finally:
        for task in [*streams, *asking]:
            task.cancel()
    return Segment(gaps_s, len(asking))


async def _stream(placed: PlacedAdapter, prompt: str, num_tokens: int) -> list[float]:
    events = placed.client.generate(
        prompt,
        adapters=placed.alias,
        options=GenerationOptions(max_tokens=num_tokens, ignore_eos=True),
        timeout_s=_TIMEOUT_S,
    )
    times_s: list[float] = []
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Delta) and event.token_ids:
                times_s.append(time.perf_counter())
    return [later - earlier for earlier, later in pairwise(times_s)]
