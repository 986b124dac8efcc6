"""`engine`: decode speed of 8 streams with 8 adapters, beside transformers + PEFT in the same run.

Ours is the whole engine (scheduling, KV blocks, sampling, detokenising) on the torch back end.
The two run the same prompts with the same adapters, greedily, with the same number of threads, each
in a process of its own, in turn, and the medians are compared. Decode only: prefill is not in the
figures. Beside it: decode and prefill of the back end alone, in both number formats.
"""

from __future__ import annotations

import asyncio
import importlib.util
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.adapters import ALL_LINEAR, write_random_adapter
from bench.backend_alone import PREFILL_TOKENS, measure_backend
from bench.deployment import load_base_model
from bench.engine_streams import EngineStreams, num_cores
from bench.measure import median
from bench.peft_process import PeftProcess
from bench.result import BenchError, BenchOptions, BenchResult, Target

NUM_STREAMS = 8
RANK = 16
PROMPT_TOKENS = 20
TARGET_RATIO = 3.0
_CASES = (
    # name, streams, with adapters
    ("8 streams, 8 adapters", NUM_STREAMS, True),
    ("8 streams, base", NUM_STREAMS, False),
    ("1 stream, adapter", 1, True),
    ("1 stream, base", 1, False),
)


def run(options: BenchOptions) -> BenchResult:
    """Measures both in turn and compares their medians."""
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    for package in ("torch", "transformers", "peft"):
        if importlib.util.find_spec(package) is None:
            raise BenchError(f"{package} is missing: run `pip install 'edgelora[train]'`")
    model = load_base_model(options)
    new_tokens = 16 if options.quick else 64
    num_rounds = 2 if options.quick else 5
    threads = num_cores()
    prompts: NDArray[np.int32] = np.random.default_rng(options.seed).integers(
        100, model.vocab_size, (NUM_STREAMS, PROMPT_TOKENS), dtype=np.int32
    )
    async with AsyncExitStack() as cleanup:
        with tempfile.TemporaryDirectory(prefix="edgelora-bench-adapters-") as directory:
            adapters = [
                write_random_adapter(
                    Path(directory) / str(index),
                    model,
                    rank=RANK,
                    modules=ALL_LINEAR,
                    seed=options.seed + index,
                )
                for index in range(NUM_STREAMS)
            ]
            alone = {}
            for dtype in ("float32", "bfloat16"):
                options.progress(f"the back end alone, {dtype}")
                alone[dtype] = await measure_backend(
                    options.model_directory,
                    adapters,
                    streams=NUM_STREAMS,
                    new_tokens=new_tokens,
                    num_threads=threads,
                    dtype=dtype,
                )
            options.progress("loading transformers + PEFT")
            peft = PeftProcess()
            cleanup.callback(peft.close)
            await peft.load(options.model_directory, adapters, threads)
            options.progress("loading the engine")
            # Imported here: listing the benchmarks does not need torch.
            from services.inference.backends.torch_factory import make_torch_backend

            engine = EngineStreams(
                make_torch_backend(num_threads=threads, dtype="float32"),
                options.model_directory,
                adapters,
                max_streams=NUM_STREAMS,
                max_tokens=PROMPT_TOKENS + new_tokens + 1,
            )
            await engine.start(prompts)
            cleanup.push_async_callback(engine.stop)
        rows = []
        for name, streams, with_adapters in _CASES:
            options.progress(name)
            rows.append(
                await _compare(
                    name, engine, peft, prompts[:streams], with_adapters, new_tokens, num_rounds
                )
            )
    return BenchResult(
        results={
            "backend": "torch, float32",
            "threads": threads,
            "adapter_rank": RANK,
            "prompt_tokens": PROMPT_TOKENS,
            "new_tokens": new_tokens,
            "rounds": num_rounds,
            "decode_tokens_per_s": rows,
            "backend_alone": {
                "streams": NUM_STREAMS,
                "prefill_prompt_tokens": PREFILL_TOKENS,
                **alone,
            },
        },
        targets=[Target.at_least("engine_to_peft_8_adapters", TARGET_RATIO, rows[0]["ratio"])],
    )


async def _compare(
    name: str,
    engine: EngineStreams,
    peft: PeftProcess,
    prompts: NDArray[np.int32],
    with_adapters: bool,
    new_tokens: int,
    num_rounds: int,
) -> dict[str, Any]:
    theirs: list[float] = []
    ours: list[float] = []
    for _ in range(num_rounds):
        theirs.append(await peft.decode_speed(prompts, new_tokens, with_adapters=with_adapters))
        speed = await engine.measure(prompts, new_tokens, with_adapters=with_adapters)
        ours.append(speed.tokens_per_s)
    return {
        "case": name,
        "engine": round(median(ours), 1),
        "peft": round(median(theirs), 1),
        "ratio": round(median(ours) / median(theirs), 2),
        "engine_runs": [round(value, 1) for value in ours],
        "peft_runs": [round(value, 1) for value in theirs],
    }
