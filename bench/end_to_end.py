"""`end-to-end`: 8 streams with 8 adapters through the gateway and gRPC, beside the engine alone.

Three things serve the same load in turn: a node as clients see it, the whole engine without its
network face, and the native back end alone. Rank 16 on all linear modules, prompts of 64 tokens.
All new tokens count over the time from sending to the last of them, so the prompts' time is part
of it for all three. The client runs on the same cores as the node.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.adapters import ALL_LINEAR, write_random_adapter
from bench.contest import contest, medians
from bench.deployment import Deployment, deployment
from bench.engine_cases import DISTINCT, NUM_ADAPTERS, PROMPT_TOKENS, RANK
from bench.load import Request, send_request
from bench.measure import RequestRecord
from bench.model_files import find_model_files
from bench.peers.roster import ENGINE, NATIVE
from bench.prompts import PromptWriter
from bench.result import BenchError, BenchOptions, BenchResult, Target

_NEW_TOKENS, _QUICK_NEW_TOKENS = 128, 16
_ROUNDS, _QUICK_ROUNDS = 7, 2
_MIN_SHARE = 0.85
_NODE = "node"


def run(options: BenchOptions) -> BenchResult:
    """Measures all three in turn."""
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    new_tokens = _QUICK_NEW_TOKENS if options.quick else _NEW_TOKENS
    rounds = _QUICK_ROUNDS if options.quick else _ROUNDS
    case = DISTINCT[8]
    runs: dict[str, list[float]] = {}
    writer = PromptWriter(options.model_directory)
    with contest(
        [ENGINE, NATIVE],
        find_model_files(options),
        seed=options.seed,
        num_threads=options.num_threads,
        new_tokens=new_tokens,
        progress=options.progress,
    ) as alone:
        if alone.skipped:
            raise BenchError("; ".join(f"{name}: {why}" for name, why in alone.skipped.items()))
        settings = {"EDGELORA_INFERENCE_THREADS": str(options.num_threads)}
        async with deployment(options, settings) as node:
            await _register(node, options)
            await _round(node, writer, "warm", new_tokens)
            for number in range(rounds):
                options.progress(f"round {number + 1} of {rounds}")
                for name, found in (
                    await asyncio.to_thread(alone.measure, case, 1, with_prompts=True)
                ).items():
                    runs.setdefault(name, []).extend(found)
                records = await _round(node, writer, f"{options.seed} {number}", new_tokens)
                runs.setdefault(_NODE, []).append(_speed(records))
    speeds = medians(runs)
    shares = {name: round(speeds[_NODE] / speeds[name], 3) for name in (ENGINE.name, NATIVE.name)}
    return BenchResult(
        results={
            "streams": len(case.adapters),
            "adapters": NUM_ADAPTERS,
            "adapter_rank": RANK,
            "prompt_tokens": PROMPT_TOKENS,
            "new_tokens": new_tokens,
            "rounds": rounds,
            "threads": options.num_threads,
            "tokens_per_s": [
                {"what": "node, gateway and gRPC", "tokens_per_s": speeds[_NODE]},
                {"what": "engine alone", "tokens_per_s": speeds[ENGINE.name]},
                {"what": "native back end alone", "tokens_per_s": speeds[NATIVE.name]},
            ],
            "runs": {name: [round(one, 1) for one in found] for name, found in runs.items()},
        },
        targets=[
            Target.at_least(f"node / {name}", _MIN_SHARE, share) for name, share in shares.items()
        ],
    )


async def _register(node: Deployment, options: BenchOptions) -> None:
    files = find_model_files(options)
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-adapters-") as directory:
        for index in range(NUM_ADAPTERS):
            await node.register(
                write_random_adapter(
                    Path(directory) / str(index),
                    files.model,
                    rank=RANK,
                    modules=ALL_LINEAR,
                    seed=options.seed + index,
                )
            )


async def _round(
    node: Deployment, writer: PromptWriter, seed: str, new_tokens: int
) -> Sequence[RequestRecord]:
    now_s = time.monotonic()
    records = await asyncio.gather(
        *(
            send_request(
                Request(
                    client=placed.client,
                    adapter=placed.alias,
                    prompt=writer.write(PROMPT_TOKENS, f"{seed} {index}"),
                    num_output_tokens=new_tokens + 1,
                ),
                now_s,
            )
            for index, placed in enumerate(node.adapters)
        )
    )
    if errors := {record.error for record in records if record.error is not None}:
        raise BenchError(f"the gateway answered {', '.join(sorted(errors))}: see its log")
    return records


def _speed(records: Sequence[RequestRecord]) -> float:
    """New tokens of all streams over the time from sending the first to the end of the last."""
    begin_s = min(one.sent_s for one in records)
    end_s = max(one.finished_s for one in records if one.finished_s is not None)
    return sum(one.num_output_tokens for one in records) / (end_s - begin_s)
