"""`scale`: what 1,000 adapters cost beside 10.

Two stacks run beside each other, one with 10 registered adapters, one with 1,000. First open-loop
load as `serve` sends it, at 70 % of what the engine was measured to carry, over all adapters of
either stack with the skew alpha = 0.3; the same requests go to either in turn, so that a slow
minute of the machine hits both, and the latencies of all rounds are taken together. Then, as a
second number, load that keeps the engine busy all the time: on 10 adapters of either stack, and on
all 1,000.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from bench.adapters import QUERY_VALUE
from bench.deployment import Deployment, deployment, load_base_model
from bench.load import run_open_loop
from bench.measure import RequestRecord, median, percentile, summarise
from bench.prompts import PromptWriter
from bench.registration import register_random_adapters
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.serve import sender
from bench.tier_counts import TierCounts, tier_counts
from bench.workload import Workload, schedule

_FEW = 10
_RANKS = (4, 5, 6, 7, 8)
_ALPHA = 0.3
_LOAD = 0.7
"""Of the capacity."""
_MIN_THROUGHPUT = 0.9
_MAX_P99_GROWTH = 2.0
_MIN_BUSY_THROUGHPUT = 0.95
_BUSY_RPS = 1000.0
"""Far above any capacity here: all requests wait at once, and the engine is never idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    num_many: int
    num_rounds: int
    duration_s: float
    """Of one open-loop run."""
    num_busy_rounds: int
    num_busy_requests: int


@dataclass(slots=True)
class _Stack:
    """A stack, and what open-loop load found there."""

    node: Deployment
    load: Workload
    records: list[RequestRecord] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)
    """Output tokens a second, one for each round."""
    counts: TierCounts = field(default_factory=TierCounts)


def run(options: BenchOptions) -> BenchResult:
    """Measures throughput and latency with few and many adapters, A/B/A/B."""
    if options.address is not None:
        raise BenchError("scale starts two stacks of its own: leave --address out")
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    size = (
        _Size(num_many=40, num_rounds=2, duration_s=4.0, num_busy_rounds=1, num_busy_requests=16)
        if options.quick
        else _Size(
            num_many=1000, num_rounds=3, duration_s=40.0, num_busy_rounds=3, num_busy_requests=96
        )
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
        busy = Workload(
            num_adapters=_FEW,
            alpha=_ALPHA,
            rate_per_s=_BUSY_RPS,
            cv=1.0,
            duration_s=size.num_busy_requests / _BUSY_RPS,
            input_tokens=(8, 64) if options.quick else (8, 128),
            output_tokens=(8, 32) if options.quick else (8, 128),
            seed=options.seed,
        )
        options.progress("measuring the capacity")
        await _send(many, writer, busy, "warm")
        await _send(few, writer, busy, "warm")
        capacity = summarise(await _send(few, writer, busy, "capacity"), {})
        load = replace(
            busy,
            rate_per_s=_LOAD * capacity["requests_per_s"],
            cv=1.5,  # as `serve`
            duration_s=size.duration_s,
        )
        pair = [_Stack(few, load), _Stack(many, replace(load, num_adapters=size.num_many))]
        for number in range(size.num_rounds):
            for stack in pair:
                options.progress(
                    f"{load.rate_per_s:.2f} requests/s over {stack.load.num_adapters} adapters, "
                    f"round {number + 1} of {size.num_rounds}"
                )
                await _open_loop(stack, writer, options.seed + number)
        busy_speeds: dict[str, list[float]] = {}
        cases = {
            f"{_FEW} registered, load on {_FEW}": (few, busy),
            f"{size.num_many} registered, load on {_FEW}": (many, busy),
            f"{size.num_many} registered, load on all": (
                many,
                replace(busy, num_adapters=size.num_many),
            ),
        }
        for number in range(size.num_busy_rounds):
            options.progress(f"busy engine, round {number + 1} of {size.num_busy_rounds}")
            for case, (node, workload) in cases.items():
                summary = summarise(await _send(node, writer, workload, f"busy {number}"), {})
                busy_speeds.setdefault(case, []).append(summary["output_tokens_per_s"])
    return _result(pair, capacity["requests_per_s"], busy_speeds)


async def _open_loop(stack: _Stack, writer: PromptWriter, seed: int) -> None:
    client = stack.node.clients[0]
    before = await tier_counts(client)
    records = await _send(stack.node, writer, replace(stack.load, seed=seed), f"open {seed}")
    stack.counts += await tier_counts(client) - before
    stack.records += records
    stack.speeds.append(summarise(records, {})["output_tokens_per_s"])


async def _send(
    node: Deployment, writer: PromptWriter, load: Workload, name: str
) -> list[RequestRecord]:
    records = await run_open_loop(schedule(load), sender(node, writer, name))
    if errors := sorted({record.error for record in records if record.error is not None}):
        raise BenchError(f"the gateway answered {', '.join(errors)}: see its log")
    return records


def _result(
    pair: Sequence[_Stack], capacity_rps: float, busy_speeds: dict[str, list[float]]
) -> BenchResult:
    rows = [_row(stack) for stack in pair]
    few, many = rows
    busy = {case: median(speeds) for case, speeds in busy_speeds.items()}
    busy_few, busy_many, busy_spread = busy.values()
    num_many = many["adapters"]
    throughput = round(many["output_tokens_per_s"] / few["output_tokens_per_s"], 4)
    p99_growth = round(many["ttft_p99_ms"] / few["ttft_p99_ms"], 3)
    return BenchResult(
        results={
            "adapters_of": f"query and value, rank {_RANKS[0]} to {_RANKS[-1]}",
            "alpha": _ALPHA,
            "capacity_rps": round(capacity_rps, 2),
            "rate_rps": round(pair[0].load.rate_per_s, 2),
            "rounds": len(pair[0].speeds),
            "open_loop": rows,
            "tiers": [
                {"adapters": stack.load.num_adapters, **stack.counts.document()} for stack in pair
            ],
            "busy_engine": [
                {
                    "case": case,
                    "output_tokens_per_s": round(speed, 1),
                    "to_few": round(speed / busy_few, 4),
                }
                for case, speed in busy.items()
            ],
            "runs": {
                **{f"open {stack.load.num_adapters}": stack.speeds for stack in pair},
                **busy_speeds,
            },
        },
        targets=[
            Target.at_least(f"throughput, {num_many} to {_FEW}", _MIN_THROUGHPUT, throughput),
            Target.at_most(f"p99 TTFT, {num_many} to {_FEW}", _MAX_P99_GROWTH, p99_growth),
            Target.at_least(
                f"busy engine: throughput on {_FEW}, {num_many} to {_FEW} registered",
                _MIN_BUSY_THROUGHPUT,
                round(busy_many / busy_few, 4),
            ),
            Target.at_least(
                f"busy engine: throughput, {num_many} to {_FEW}",
                _MIN_THROUGHPUT,
                round(busy_spread / busy_few, 4),
            ),
        ],
    )


def _row(stack: _Stack) -> dict[str, Any]:
    summary = summarise(stack.records, {})
    names = ("ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms", "tpot_p50_ms", "send_lag_p99_ms")
    return {
        "adapters": stack.load.num_adapters,
        "requests": len(stack.records),
        "output_tokens_per_s": round(median(stack.speeds), 1),
        **{name: summary[name] for name in names},
        **_waits_ms(stack.records),
    }


def _waits_ms(records: Sequence[RequestRecord]) -> dict[str, float | None]:
    """What requests waited for, by the node: their turn, and adapters that were not in memory."""
    queued_s = [one.queue_s for one in records if one.queue_s is not None]
    loaded_s = [one.adapter_load_s for one in records if one.adapter_load_s]
    found = {}
    for name, values_s in (("queue", queued_s), ("load", loaded_s)):
        for rank in (50, 99):
            value_s = percentile(values_s, rank)
            found[f"{name}_p{rank}_ms"] = None if value_s is None else round(value_s * 1000, 2)
    return found
