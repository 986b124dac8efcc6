"""Sends a trace to a stack, with its classes or as one, and notes what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bench.class_trace import TracedRequest
from bench.deployment import Deployment
from bench.load import Request, run_open_loop, send_request
from bench.measure import RequestRecord
from bench.prompts import PromptWriter
from bench.result import BenchError
from edgelora.generation import Priority

CLASSES: Sequence[Priority] = ("interactive", "background", "batch")
SendTraced = Callable[[TracedRequest, float], Awaitable[RequestRecord]]


@dataclass(slots=True)
class Side:
    """A stack, how the trace is sent there, and what became of it."""

    name: str
    node: Deployment
    has_classes: bool
    records: dict[Priority, list[RequestRecord]] = field(
        default_factory=lambda: {name: [] for name in CLASSES}
    )
    batch_tokens_per_s: list[float] = field(default_factory=list)
    """One for each replay."""


async def warm_up(side: Side, writer: PromptWriter) -> None:
    """Brings every adapter into its slot."""
    every = [
        TracedRequest(
            index=adapter,
            at_s=0.0,
            priority="interactive",
            adapter=adapter,
            num_input_tokens=8,
            num_output_tokens=2,
        )
        for adapter in range(len(side.node.adapters))
    ]
    require_done(await run_open_loop(every, sender(side, writer, "warm")))


async def replay(
    side: Side, trace: Sequence[TracedRequest], writer: PromptWriter, name: str
) -> None:
    """Sends a trace to a side and notes what became of it."""
    records = await run_open_loop(trace, sender(side, writer, name))
    for traced, record in zip(trace, records, strict=True):
        side.records[traced.priority].append(record)
    jobs = [
        record
        for traced, record in zip(trace, records, strict=True)
        if traced.priority == "batch" and record.finished_s is not None
    ]
    if jobs:
        tokens = sum(one.num_input_tokens + one.num_output_tokens for one in jobs)
        last_s = max(one.finished_s for one in jobs if one.finished_s is not None)
        first_s = min(one.scheduled_s for one in jobs)
        side.batch_tokens_per_s.append(tokens / (last_s - first_s))


def sender(side: Side, writer: PromptWriter, name: str) -> SendTraced:
    """Returns what sends a request of a trace to a side, with a prompt of its own.

    Without classes everything is interactive, which for one class alone is the order of arrival.
    """

    async def send(traced: TracedRequest, scheduled_s: float) -> RequestRecord:
        placed = side.node.adapters[traced.adapter]
        request = Request(
            client=placed.client,
            adapter=placed.alias,
            prompt=writer.write(traced.num_input_tokens, f"{name} {traced.index}"),
            num_output_tokens=traced.num_output_tokens,
            priority=traced.priority if side.has_classes else "interactive",
        )
        return await send_request(request, scheduled_s)

    return send


def require_done(records: Sequence[RequestRecord]) -> None:
    """Raises BenchError when one was answered in an error."""
    if errors := sorted({one.error for one in records if one.error is not None}):
        raise BenchError(f"the gateway answered {', '.join(errors)}: see its log")
