"""`worker`: what a worker on the native back end takes: start, memory, idle processor time.

The process is an ordinary one with the settings as they come, threads apart. Resident memory is
read after 8 streams of 1,024 tokens with 8 adapters (rank 16, all linear modules) have run, so that
the KV cache and the adapter slots are really there; what a second worker adds is the growth of the
proportional sizes of both together, after each has generated.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil

from bench.adapters import ALL_LINEAR
from bench.deployment import deployment, load_base_model
from bench.engine_cases import NUM_ADAPTERS, RANK
from bench.load import Request, send_request
from bench.measure import median
from bench.prompts import PromptWriter
from bench.registration import register_random_adapters
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.worker_process import Memory, worker_process

_MODULE = "services.inference"
_STREAM_TOKENS, _OUTPUT_TOKENS = 1024, 8
_STARTS, _QUICK_STARTS = 7, 2
_IDLE_S, _QUICK_IDLE_S = 20.0, 2.0
_MAX_COLD_START_S = 2.0
_MAX_RESIDENT_MB = 450.0
_MAX_SECOND_MB = 120.0
_MAX_IDLE_SHARE = 0.01
_MB = 1e6


def run(options: BenchOptions) -> BenchResult:
    """Starts workers and a stack of its own; reads /proc."""
    if options.address is not None:
        raise BenchError("worker starts processes of its own: leave --address out")
    directory = options.model_directory.resolve()
    return asyncio.run(_run(replace(options, model_directory=directory)))


async def _run(options: BenchOptions) -> BenchResult:
    settings = {"BACKEND": "native", "THREADS": str(options.num_threads)}
    starts_s = []
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as directory:
        place = Path(directory)
        for number in range(_QUICK_STARTS if options.quick else _STARTS):
            options.progress(f"cold start {number + 1}")
            began_s = time.monotonic()
            async with worker_process(
                options.model_directory, place / f"start-{number}", settings
            ) as worker:
                await worker.generate("The", 1)
                starts_s.append(time.monotonic() - began_s)
        idle_s = _QUICK_IDLE_S if options.quick else _IDLE_S
        async with worker_process(options.model_directory, place / "one", settings) as one:
            await one.generate("The weather is", 8)
            options.progress(f"idle for {idle_s:g} s")
            before_s, began_s = one.processor_s(), time.monotonic()
            await asyncio.sleep(idle_s)
            idle_share = (one.processor_s() - before_s) / (time.monotonic() - began_s)
            options.progress("a second worker")
            ready = Memory.of(one.pid)
            async with worker_process(options.model_directory, place / "two", settings) as two:
                await two.generate("The weather is", 8)
                pair = Memory.of(one.pid).proportional + Memory.of(two.pid).proportional
    loaded = await _memory_under_load(options, settings)
    cold_s = round(median(starts_s), 3)
    second_mb = round((pair - ready.proportional) / _MB, 1)
    loaded_mb = round(loaded.resident / _MB, 1)
    idle_share = round(idle_share, 4)
    return BenchResult(
        results={
            "cold_start_to_first_token_s": cold_s,
            "runs": [round(one, 3) for one in starts_s],
            "resident_mb_ready": round(ready.resident / _MB, 1),
            "resident_mb_8_streams_8_adapters": loaded_mb,
            "second_worker_adds_mb": second_mb,
            "idle_processor_share": idle_share,
        },
        targets=[
            Target.at_most("cold_start_to_first_token_s", _MAX_COLD_START_S, cold_s),
            Target.at_most("resident_mb", _MAX_RESIDENT_MB, loaded_mb),
            Target.at_most("second_worker_adds_mb", _MAX_SECOND_MB, second_mb),
            Target.at_most("idle_processor_share", _MAX_IDLE_SHARE, idle_share),
        ],
    )


async def _memory_under_load(options: BenchOptions, settings: dict[str, str]) -> Memory:
    """Memory of a stack's worker after 8 long streams with 8 adapters."""
    model = load_base_model(options)
    writer = PromptWriter(options.model_directory)
    environ = {f"EDGELORA_INFERENCE_{name}": value for name, value in settings.items()}
    async with deployment(options, environ) as node:
        await register_random_adapters(
            node, model, NUM_ADAPTERS, ranks=[RANK], modules=ALL_LINEAR, options=options
        )
        options.progress(f"{NUM_ADAPTERS} streams of {_STREAM_TOKENS} tokens")
        records = await asyncio.gather(
            *(
                send_request(
                    Request(
                        client=placed.client,
                        adapter=placed.alias,
                        prompt=writer.write(_STREAM_TOKENS - _OUTPUT_TOKENS, str(index)),
                        num_output_tokens=_OUTPUT_TOKENS,
                    ),
                    time.monotonic(),
                )
                for index, placed in enumerate(node.adapters)
            )
        )
        if errors := {record.error for record in records if record.error is not None}:
            raise BenchError(f"the gateway answered {', '.join(sorted(errors))}: see its log")
        (pid,) = (
            child.pid
            for child in psutil.Process().children(recursive=True)
            if _MODULE in child.cmdline()
        )
        return Memory.of(pid)
