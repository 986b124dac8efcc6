"""`serve`: open-loop load through the gateway, at fractions of the measured capacity.

Capacity is what one stream at a time achieves, so rates above 1 are only held by batching.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.adapters import ALL_LINEAR
from bench.deployment import Deployment, deployment, load_base_model
from bench.load import Request, Send, run_open_loop, send_request
from bench.measure import PUBLISHED_SLO_S, RequestRecord, scaled_slo_s, summarise
from bench.prompts import PromptWriter
from bench.registration import register_random_adapters
from bench.result import BenchError, BenchOptions, BenchResult
from bench.workload import Arrival, Workload, schedule

_RANK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    workload: Workload
    """Its rate is replaced by fractions of the capacity."""
    fractions: Sequence[float]
    num_capacity_requests: int


def _plan(options: BenchOptions) -> _Plan:
    # The full one has the adapters, skew and burstiness of the published EdgeLoRA's preset.
    workload = Workload(
        num_adapters=8 if options.quick else 50,
        alpha=1.0,
        rate_per_s=1.0,
        cv=1.5,
        duration_s=6.0 if options.quick else 60.0,
        input_tokens=(8, 64) if options.quick else (8, 128),
        output_tokens=(8, 32) if options.quick else (8, 128),
        seed=options.seed,
    )
    return _Plan(
        workload=workload,
        fractions=(0.5, 1.2, 2.0) if options.quick else (0.5, 0.8, 1.2, 2.0),
        num_capacity_requests=6 if options.quick else 20,
    )


def run(options: BenchOptions) -> BenchResult:
    """Measures throughput, TTFT, TPOT and attainment at several rates."""
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    plan = _plan(options)
    workload = plan.workload
    model = load_base_model(options)
    writer = PromptWriter(options.model_directory)
    async with deployment(options) as node:
        await register_random_adapters(
            node,
            model,
            workload.num_adapters,
            ranks=[_RANK],
            modules=ALL_LINEAR,
            options=options,
        )
        options.progress("measuring capacity, one stream at a time")
        capacity_rps = await _single_stream_capacity(
            plan, sender(node, writer, f"{options.seed} capacity")
        )
        slos_s = {"6s": PUBLISHED_SLO_S, "scaled": scaled_slo_s(capacity_rps)}
        rows = []
        for fraction in plan.fractions:
            rate = fraction * capacity_rps
            send = sender(node, writer, f"{options.seed} {fraction}")
            options.progress(f"{rate:.2f} requests/s ({fraction:g} x capacity)")
            records = await run_open_loop(schedule(replace(workload, rate_per_s=rate)), send)
            rows.append(
                {"load": fraction, "rate_per_s": round(rate, 3), **summarise(records, slos_s)}
            )
    return BenchResult(
        results={
            "workload": _describe(workload),
            "adapter_rank": _RANK,
            "capacity_single_stream_rps": round(capacity_rps, 3),
            "slo_scaled_s": round(slos_s["scaled"], 3),
            "loads": rows,
        }
    )


def sender(node: Deployment, writer: PromptWriter, run_name: str) -> Send:
    """Returns what sends an arrival to its adapter, with a prompt no other run has.

    Adapter 0 is the most popular.
    """

    async def send(arrival: Arrival, scheduled_s: float) -> RequestRecord:
        placed = node.adapters[arrival.adapter]
        request = Request(
            client=placed.client,
            adapter=placed.alias,
            prompt=writer.write(arrival.num_input_tokens, f"{run_name} {arrival.index}"),
            num_output_tokens=arrival.num_output_tokens,
        )
        return await send_request(request, scheduled_s)

    return send


async def _single_stream_capacity(plan: _Plan, send: Send) -> float:
    """Returns requests a second with one in flight. Raises BenchError when one fails."""
    count = plan.num_capacity_requests
    arrivals = schedule(replace(plan.workload, rate_per_s=1.0, duration_s=float(count + 1)))
    await _send_now(send, arrivals[count])  # warms up
    start_s = time.monotonic()
    for arrival in arrivals[:count]:
        await _send_now(send, arrival)
    return count / (time.monotonic() - start_s)


async def _send_now(send: Send, arrival: Arrival) -> None:
    record = await send(arrival, time.monotonic())
    if record.error is not None:
        raise BenchError(f"the gateway answered {record.error}: see its log")


def _describe(workload: Workload) -> dict[str, Any]:
    return {
        "num_adapters": workload.num_adapters,
        "alpha": workload.alpha,
        "cv": workload.cv,
        "duration_s": workload.duration_s,
        "input_tokens": list(workload.input_tokens),
        "output_tokens": list(workload.output_tokens),
    }
