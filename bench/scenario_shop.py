"""`scenario shop`: 8 requests at a time for ten minutes, and none is lost.

A running stack with 20 adapters of rank 8 to 32 in 16 slots, four tenants: at the counter
(interactive, short), at the shelves (interactive), in the office (background) and its reports
(batch), two requests of each at any time. Every request must end in an answer or in a declared
refusal: RESOURCE_EXHAUSTED with the time to wait, before its first token. A stream that closes
without either, or twice, is a lost request. The processes must be the same at the end; the slope
of their memory is that of the second half.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.adapters import QUERY_VALUE
from bench.deployment import Deployment, deployment, load_base_model
from bench.process_watch import ProcessWatch, process_watch
from bench.prompts import PromptWriter
from bench.registration import register_random_adapters
from bench.request_ends import Ends
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.shares import served_tokens, spread, waits_s
from bench.tenant_loop import Demand, DemandLoop, run_for
from edgelora.generation import Priority

_RANKS = (8, 16, 32)
_PEOPLE: Sequence[tuple[str, Priority, tuple[int, int], tuple[int, int]]] = (
    ("counter", "interactive", (8, 32), (4, 16)),
    ("shelves", "interactive", (16, 64), (8, 32)),
    ("office", "background", (32, 128), (16, 64)),
    ("reports", "batch", (64, 256), (32, 128)),
)
"""Name, class, tokens of prompts and of outputs; one tenant each."""
_IN_FLIGHT = 2
"""Of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long, and with how many adapters."""

    duration_s: float
    num_adapters: int
    look_every_s: float


def run(options: BenchOptions) -> BenchResult:
    """Keeps 8 requests in flight and counts how each of them ends."""
    if options.address is not None:
        raise BenchError("scenario shop starts a stack of its own: leave --address out")
    plan = (
        Plan(duration_s=20.0, num_adapters=8, look_every_s=0.5)
        if options.quick
        else Plan(duration_s=600.0, num_adapters=20, look_every_s=2.0)
    )
    return asyncio.run(run_plan(plan, options))


async def run_plan(plan: Plan, options: BenchOptions) -> BenchResult:
    """Runs it on a stack of its own."""
    model = load_base_model(options)
    writer = PromptWriter(options.model_directory)
    async with deployment(options, num_tenants=len(_PEOPLE)) as node:
        await register_random_adapters(
            node, model, plan.num_adapters, ranks=_RANKS, modules=QUERY_VALUE, options=options
        )
        options.progress(f"8 requests at a time for {plan.duration_s:g} s")
        assert node.pids is not None  # the stack is our own
        return await keep_shop(node, node.pids, plan, writer, options.seed)


async def keep_shop(
    node: Deployment, pids: Path, plan: Plan, writer: PromptWriter, seed: int
) -> BenchResult:
    """Keeps the requests coming to a node with adapters of four tenants."""
    loops = [
        DemandLoop(
            Demand(
                name=name,
                adapters=node.adapters[index :: len(_PEOPLE)],
                num_in_flight=_IN_FLIGHT,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                priority=priority,
            ),
            writer,
            f"{seed} {name}",
        )
        for index, (name, priority, input_tokens, output_tokens) in enumerate(_PEOPLE)
    ]
    async with process_watch(pids, plan.look_every_s) as watch:
        from_s, until_s = await run_for(loops, plan.duration_s)
    return _result(loops, watch, from_s, until_s)


def _result(
    loops: Sequence[DemandLoop], watch: ProcessWatch, from_s: float, until_s: float
) -> BenchResult:
    records = [record for loop in loops for record in loop.records]
    ends = Ends.of(records)
    memory = watch.memory()
    return BenchResult(
        results={
            "in_flight": _IN_FLIGHT * len(loops),
            "duration_s": round(until_s - from_s, 1),
            "tokens_per_s": round(served_tokens(records, from_s, until_s) / (until_s - from_s), 1),
            "ends": ends.document(),
            "processes_changed": sorted(watch.changed),
            "people": [_row(loop) for loop in loops],
            "memory": memory,
        },
        targets=[
            Target.at_most("requests lost", 0, ends.num_lost),
            Target.at_most("errors that were no declared refusals", 0, ends.num_errors),
            Target.at_most("processes that ended", 0, len(watch.changed)),
        ],
    )


def _row(loop: DemandLoop) -> dict[str, Any]:
    ends = Ends.of(loop.records)
    waits = spread(waits_s(loop.records))
    return {
        "who": loop.demand.name,
        "class": loop.demand.priority,
        "done": ends.num_done,
        "refused": ends.num_refused,
        "first_token_p50_ms": waits["p50_ms"],
        "first_token_p99_ms": waits["p99_ms"],
    }
