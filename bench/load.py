"""Sends requests to a gateway at their scheduled times and records what happened to each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from bench.measure import RequestRecord
from bench.workload import Arrival
from edgelora.client import EdgeLoraClient
from edgelora.errors import EdgeLoraError
from edgelora.generation import Delta, GenerationOptions, Usage

_REQUEST_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation to send."""

    client: EdgeLoraClient
    adapter: str | None
    """Alias; None is the base model."""
    prompt: str
    num_output_tokens: int
    """Forced: the model may not end before."""


Send = Callable[[Arrival, float], Awaitable[RequestRecord]]
"""Sends an arrival now; the second argument is its scheduled time on the monotonic clock."""


async def run_open_loop(arrivals: Sequence[Arrival], send: Send) -> list[RequestRecord]:
    """Sends each request at its own time, whatever is in flight; returns one record each."""
    start_s = time.monotonic()

    async def send_in_time(arrival: Arrival) -> RequestRecord:
        scheduled_s = start_s + arrival.at_s
        await asyncio.sleep(scheduled_s - time.monotonic())
        return await send(arrival, scheduled_s)

    return list(await asyncio.gather(*map(send_in_time, arrivals)))


async def send_request(request: Request, scheduled_s: float) -> RequestRecord:
    """Sends one request now and reads its stream to the end. Errors are part of the record."""
    sent_s = time.monotonic()
    first_token_s: float | None = None
    finished_s: float | None = None
    num_input_tokens = num_output_tokens = 0
    queue_s: float | None = None
    adapter_load_s: float | None = None
    error_name: str | None = None
    events = request.client.generate(
        request.prompt,
        adapters=request.adapter if request.adapter is not None else (),
        options=GenerationOptions(max_tokens=request.num_output_tokens, ignore_eos=True),
        timeout_s=_REQUEST_LIMIT_S,
    )
    try:
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Delta) and event.token_ids and first_token_s is None:
                    first_token_s = time.monotonic()
                elif isinstance(event, Usage):
                    num_input_tokens = event.num_prompt_tokens
                    num_output_tokens = event.num_output_tokens
                    queue_s, adapter_load_s = event.queue_s, event.adapter_load_s
        finished_s = time.monotonic()
    except EdgeLoraError as error:
        error_name = error.code
    return RequestRecord(
        scheduled_s=scheduled_s,
        sent_s=sent_s,
        first_token_s=first_token_s,
        finished_s=finished_s,
        num_input_tokens=num_input_tokens,
        num_output_tokens=num_output_tokens,
        queue_s=queue_s,
        adapter_load_s=adapter_load_s,
        error=error_name,
    )
