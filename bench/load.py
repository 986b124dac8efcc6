"""Sends requests to a gateway at their scheduled times and records what happened to each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol, TypeVar

from bench.measure import RequestRecord
from bench.workload import Arrival
from edgelora.client import EdgeLoraClient
from edgelora.degradation import Degradation
from edgelora.errors import EdgeLoraError
from edgelora.generation import Accepted, Delta, Done, GenerationOptions, Priority, Usage

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
    priority: Priority = "interactive"


class Timed(Protocol):
    """Something with a time of its own."""

    @property
    def at_s(self) -> float:
        """Seconds after the start."""
        ...


_TimedT = TypeVar("_TimedT", bound=Timed)
Send = Callable[[Arrival, float], Awaitable[RequestRecord]]
"""Sends an arrival now; the second argument is its scheduled time on the monotonic clock."""


async def run_open_loop(
    arrivals: Sequence[_TimedT], send: Callable[[_TimedT, float], Awaitable[RequestRecord]]
) -> list[RequestRecord]:
    """Sends each request at its own time, whatever is in flight; returns one record each."""
    start_s = time.monotonic()

    async def send_in_time(arrival: _TimedT) -> RequestRecord:
        scheduled_s = start_s + arrival.at_s
        await asyncio.sleep(scheduled_s - time.monotonic())
        return await send(arrival, scheduled_s)

    return list(await asyncio.gather(*map(send_in_time, arrivals)))


async def send_request(request: Request, scheduled_s: float) -> RequestRecord:
    """Sends one request now and reads its stream to the end. Errors are part of the record."""
    sent_s = time.monotonic()
    finished_s: float | None = None
    token_times_s: list[float] = []
    accepted: Accepted | None = None
    usage: Usage | None = None
    failure: EdgeLoraError | None = None
    failed_s: float | None = None
    num_ends = 0
    events = request.client.generate(
        request.prompt,
        adapters=request.adapter if request.adapter is not None else (),
        options=GenerationOptions(max_tokens=request.num_output_tokens, ignore_eos=True),
        priority=request.priority,
        timeout_s=_REQUEST_LIMIT_S,
    )
    try:
        async with aclosing(events):
            async for event in events:
                match event:
                    case Accepted():
                        accepted = event
                    case Delta():
                        token_times_s += [time.monotonic()] * len(event.token_ids)
                    case Usage():
                        usage = event
                    case Done():
                        finished_s = time.monotonic()
                        num_ends += 1
    except EdgeLoraError as error:
        failure, failed_s = error, time.monotonic()
        num_ends += 1
    return RequestRecord(
        scheduled_s=scheduled_s,
        sent_s=sent_s,
        first_token_s=token_times_s[0] if token_times_s else None,
        finished_s=finished_s,
        num_input_tokens=usage.num_prompt_tokens if usage else 0,
        num_output_tokens=usage.num_output_tokens if usage else 0,
        queue_s=usage.queue_s if usage else None,
        adapter_load_s=usage.adapter_load_s if usage else None,
        error=failure.code if failure else None,
        reason=failure.reason if failure else None,
        retry_after_s=failure.retry_after_s if failure else None,
        rule=failure.metadata.get("rule") if failure else None,
        failed_s=failed_s,
        was_accepted=accepted is not None,
        num_ends=num_ends,
        degradations=_phrases(accepted.degradations) if accepted else (),
        token_times_s=token_times_s,
    )


def _phrases(degradations: Sequence[Degradation]) -> list[str]:
    return [f"{one.step} {one.adapter_alias or one.adapter_digest}".strip() for one in degradations]
