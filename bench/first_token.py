"""`first-token`: 8 tenants' prompts of 64 tokens at once, each with an adapter of its own.

Measured by a gRPC client through the gateway, from sending to the first token.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.adapters import ALL_LINEAR, write_random_adapter
from bench.deployment import Deployment, PlacedAdapter, deployment, load_base_model
from bench.load import Request, send_request
from bench.measure import RequestRecord, percentile
from bench.prompts import PromptWriter
from bench.result import BenchError, BenchOptions, BenchResult, Target

NUM_STREAMS = 8
PROMPT_TOKENS = 64
OUTPUT_TOKENS = 8
RANK = 16
TARGET_P95_MS = 300.0


def run(options: BenchOptions) -> BenchResult:
    """Measures rounds of 8 simultaneous requests, after one round that loads the adapters."""
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    num_rounds = 6 if options.quick else 30
    model = load_base_model(options)
    writer = PromptWriter(options.model_directory)
    async with deployment(options) as node:
        with tempfile.TemporaryDirectory(prefix="edgelora-bench-adapters-") as directory:
            for index in range(NUM_STREAMS):
                await node.register(
                    write_random_adapter(
                        Path(directory) / str(index),
                        model,
                        rank=RANK,
                        modules=ALL_LINEAR,
                        seed=options.seed + index,
                    )
                )
        options.progress("measuring")
        cold = await _round(node, node.adapters, writer, f"{options.seed} cold")
        solo: list[RequestRecord] = []
        together: list[RequestRecord] = []
        base: list[RequestRecord] = []
        for number in range(num_rounds):
            seed = f"{options.seed} {number}"
            one = node.adapters[number % NUM_STREAMS : number % NUM_STREAMS + 1]
            solo += await _round(node, one, writer, f"{seed} solo")
            together += await _round(node, node.adapters, writer, f"{seed} together")
            base += await _round(node, [None] * NUM_STREAMS, writer, f"{seed} base")
    p95_ms = _percentile_ms(together, 95)
    return BenchResult(
        results={
            "streams": NUM_STREAMS,
            "prompt_tokens": PROMPT_TOKENS,
            "adapter_rank": RANK,
            "rounds": num_rounds,
            "first_token": [
                _row("8 at once, 8 adapters", together),
                _row("8 at once, base", base),
                _row("1 alone, adapter", solo),
                _row("8 at once, adapters not loaded", cold),
            ],
        },
        targets=[Target.at_most("first_token_p95_ms", TARGET_P95_MS, p95_ms)],
    )


async def _round(
    node: Deployment,
    adapters: Sequence[PlacedAdapter | None],
    writer: PromptWriter,
    seed: str,
) -> list[RequestRecord]:
    requests = [
        Request(
            client=placed.client if placed else node.clients[index % len(node.clients)],
            adapter=placed.alias if placed else None,
            prompt=writer.write(PROMPT_TOKENS, f"{seed} {index}"),
            num_output_tokens=OUTPUT_TOKENS,
        )
        for index, placed in enumerate(adapters)
    ]
    now_s = time.monotonic()
    records = await asyncio.gather(*(send_request(request, now_s) for request in requests))
    errors = {record.error for record in records if record.error is not None}
    if errors:
        raise BenchError(f"the gateway answered {', '.join(sorted(errors))}: see its log")
    if any(record.num_input_tokens != PROMPT_TOKENS for record in records):
        raise BenchError("a prompt did not have the number of tokens it was written for")
    return list(records)


def _row(name: str, records: Sequence[RequestRecord]) -> dict[str, Any]:
    return {
        "case": name,
        "requests": len(records),
        "p50_ms": _percentile_ms(records, 50),
        "p95_ms": _percentile_ms(records, 95),
        "max_ms": _percentile_ms(records, 100),
    }


def _percentile_ms(records: Sequence[RequestRecord], rank: float) -> float | None:
    value_s = percentile([one.ttft_s for one in records if one.ttft_s is not None], rank)
    return None if value_s is None else round(value_s * 1000, 1)
