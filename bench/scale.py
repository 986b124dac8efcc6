"""`scale`: what many registered adapters cost.

Two stacks run beside each other, one with 10 registered adapters, one with 1,000. The same
saturating load on the same 10 goes to either in turn (so that a slow minute of the machine hits
both), then the load is spread over all of them with the skew alpha = 0.3.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from bench.adapters import QUERY_VALUE
from bench.deployment import Deployment, deployment, load_base_model
from bench.load import run_open_loop
from bench.measure import median, summarise
from bench.prompts import PromptWriter
from bench.registration import register_random_adapters
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.serve import sender
from bench.workload import Workload, schedule

_FEW = 10
_RANKS = (4, 5, 6, 7, 8)
_SPREAD_ALPHA = 0.3
_MIN_RATIO = 0.95
_SATURATING_RPS = 1000.0
"""Far above any capacity here: all requests wait at once, and the engine is never idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    num_many: int
    num_requests: int
    num_rounds: int


def run(options: BenchOptions) -> BenchResult:
    """Measures throughput with few and many registered adapters, A/B/A/B, and spread load."""
    if options.address is not None:
        raise BenchError("scale starts two stacks of its own: leave --address out")
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    size = (
        _Size(num_many=40, num_requests=16, num_rounds=2)
        if options.quick
        else _Size(num_many=1000, num_requests=96, num_rounds=5)
    )
    model = load_base_model(options)
    writer = PromptWriter(options.model_directory)
    async with AsyncExitStack() as stacks:
        nodes: list[Deployment] = []
        for count in (_FEW, size.num_many):
            node = await stacks.enter_async_context(deployment(options))
            await register_random_adapters(
                node, model, count, ranks=_RANKS, modules=QUERY_VALUE, options=options
            )
            nodes.append(node)
        few, many = nodes
        load = Workload(
            num_adapters=_FEW,
            alpha=1.0,
            rate_per_s=_SATURATING_RPS,
            cv=1.0,
            duration_s=size.num_requests / _SATURATING_RPS,
            input_tokens=(8, 64),
            output_tokens=(16, 32),
            seed=options.seed,
        )
        spread = replace(load, num_adapters=size.num_many, alpha=_SPREAD_ALPHA)
        await _measure(few, writer, load, "warm")
        await _measure(many, writer, load, "warm")
        rows: dict[str, list[dict[str, Any]]] = {"few": [], "many": [], "spread": []}
        for number in range(size.num_rounds):
            options.progress(f"round {number + 1} of {size.num_rounds}")
            rows["few"].append(await _measure(few, writer, load, str(number)))
            rows["many"].append(await _measure(many, writer, load, str(number)))
            rows["spread"].append(await _measure(many, writer, spread, str(number)))
    speeds = {
        case: round(median([row["output_tokens_per_s"] for row in runs]), 1)
        for case, runs in rows.items()
    }
    ratio = round(speeds["many"] / speeds["few"], 4)
    return BenchResult(
        results={
            "few_registered": _FEW,
            "many_registered": size.num_many,
            "rounds": size.num_rounds,
            "requests": size.num_requests,
            "many_to_few": ratio,
            "spread_to_few": round(speeds["spread"] / speeds["few"], 4),
            "cases": [
                {
                    "case": name,
                    "output_tokens_per_s": speeds[case],
                    "ttft_p50_ms": round(median([row["ttft_p50_ms"] for row in rows[case]]), 1),
                    "tpot_p50_ms": round(median([row["tpot_p50_ms"] for row in rows[case]]), 1),
                    "runs": [row["output_tokens_per_s"] for row in rows[case]],
                }
                for case, name in (
                    ("few", f"{_FEW} registered, load on {_FEW}"),
                    ("many", f"{size.num_many} registered, load on {_FEW}"),
                    ("spread", f"{size.num_many} registered, load on all (alpha {_SPREAD_ALPHA})"),
                )
            ],
        },
        targets=[
            Target.at_least(f"throughput_{size.num_many}_to_{_FEW}_registered", _MIN_RATIO, ratio)
        ],
    )


async def _measure(
    node: Deployment, writer: PromptWriter, load: Workload, name: str
) -> dict[str, Any]:
    records = await run_open_loop(schedule(load), sender(node, writer, name))
    summary = summarise(records, {})
    if summary["errors"]:
        raise BenchError(f"requests failed: {summary['errors']}: see the gateway's log")
    return summary
