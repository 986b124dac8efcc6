"""Registers many random adapters with a node, a few at a time."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.adapters import write_random_adapter
from bench.deployment import Deployment
from bench.result import BenchOptions
from services.chassis.base_model import BaseModel

_AT_ONCE = 4
_REPORT_EVERY = 50


async def register_random_adapters(
    node: Deployment,
    model: BaseModel,
    count: int,
    *,
    ranks: Sequence[int],
    modules: Sequence[str],
    options: BenchOptions,
) -> None:
    """Registers `count` adapters, their ranks in turn; each one's files are gone afterwards."""
    free = asyncio.Semaphore(_AT_ONCE)
    first = len(node.adapters)
    num_done = 0

    async def register(index: int) -> None:
        nonlocal num_done
        async with free:
            with tempfile.TemporaryDirectory(prefix="edgelora-bench-adapter-") as directory:
                path = await asyncio.to_thread(
                    write_random_adapter,
                    Path(directory) / "adapter",
                    model,
                    rank=ranks[index % len(ranks)],
                    modules=modules,
                    seed=options.seed * 1_000_000 + index,
                )
                await node.register(path)
        num_done += 1
        if num_done % _REPORT_EVERY == 0 or num_done == count:
            options.progress(f"registered {num_done} of {count} adapters")

    await asyncio.gather(*(register(first + offset) for offset in range(count)))
