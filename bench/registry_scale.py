"""`adapters`: what 100, 1,000 and 10,000 registered adapters cost the adapter store.

A store process of its own, with the real model and a Redis, over one directory that grows. All
adapters are one tenant's, which is the worst case for listing and counting. The last of each size
are real registrations, uploaded and verified; the ones before are copies of a real one, written
into the registry and the blob directory while the store is stopped, each with files, a certificate
and an alias of its own. Calls are made one after another through gRPC and timed by the caller.
Evictions are timed in this process, over the same directory with the store stopped.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import store_filling
from bench.adapters import QUERY_VALUE, write_random_adapter
from bench.deployment import load_base_model
from bench.measure import percentile
from bench.redis_memory import BenchRedis, bench_redis
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.store_process import WORKER, RunningStore, StoreCaller, running_store
from services.adapter_store.hot_index import worker_key
from services.chassis.base_model import BaseModel

_RANKS = (1, 2, 3, 4)
_PAGE_SIZE = 100
_NUM_RESIDENT = 64
_MAX_RESOLVE_P99_MS = 2.0
_MAX_READY_S = 3.0
_MAX_GROWTH = 1.5
"""Of a median, from the smallest size to the largest: flat within the noise of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to do."""

    sizes: Sequence[int]
    num_registrations: Sequence[int]
    """Real ones of each size."""
    num_calls: int
    num_changes: int


@dataclass(slots=True)
class _Found:
    """What was measured at one size."""

    num_adapters: int
    ready_s: float = 0.0
    rss_mib: float = 0.0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Operation -> one value a call."""


_FULL = Plan(
    sizes=(100, 1000, 10_000), num_registrations=(20, 20, 200), num_calls=2000, num_changes=60
)
_QUICK = Plan(sizes=(100, 1000), num_registrations=(4, 4), num_calls=200, num_changes=20)


def run(options: BenchOptions) -> BenchResult:
    """Measures every operation at every size."""
    return asyncio.run(measure(options, _QUICK if options.quick else _FULL))


async def measure(options: BenchOptions, plan: Plan) -> BenchResult:
    """Measures as a plan says. Raises BenchError when the store does not hold what it should."""
    model = load_base_model(options)
    model_directory = options.model_directory.resolve()
    draw = random.Random(options.seed)
    found: list[_Found] = []
    redis_memory: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as name:
        root = Path(name)
        async with bench_redis(root) as redis:
            settings = {
                "EDGELORA_STORE_MAX_ADAPTERS_PER_TENANT": str(2 * max(plan.sizes)),
                "EDGELORA_STORE_REDIS_URL": redis.url,
                "EDGELORA_STORE_REDIS_PASSWORD_FILE": str(redis.password_file),
            }

            def store() -> Any:
                return running_store(root / "store", model_directory, root, settings)

            async with store() as node:  # the one that is copied
                await _register(node.caller, model, root, options, [0])
            for size, count in zip(plan.sizes, plan.num_registrations, strict=True):
                options.progress(f"{size} adapters: filling")
                here = _Found(size)
                added_s = await asyncio.to_thread(store_filling.fill, root / "store", size - count)
                here.seconds["add to the registry"] = added_s[-plan.num_calls :]
                async with store() as node:
                    here.ready_s = node.ready_s
                    options.progress(f"{size} adapters: measuring")
                    here.seconds["register"] = await _register(
                        node.caller, model, root, options, range(size - count, size)
                    )
                    await _measure(node, plan, draw, here)
                    if size == max(plan.sizes):
                        redis_memory = await _index_memory(redis, node.caller)
                here.seconds["evict from flash"] = await asyncio.to_thread(
                    store_filling.evict, root / "store", plan.num_changes
                )
                found.append(here)
    return _result(plan, found, redis_memory)


async def _register(
    caller: StoreCaller,
    model: BaseModel,
    directory: Path,
    options: BenchOptions,
    numbers: Sequence[int],
) -> list[float]:
    seconds = []
    for number in numbers:
        with tempfile.TemporaryDirectory(dir=directory) as name:
            adapter = await asyncio.to_thread(
                write_random_adapter,
                Path(name) / "adapter",
                model,
                rank=_RANKS[number % len(_RANKS)],
                modules=QUERY_VALUE,
                seed=options.seed * 1_000_000 + number,
            )
            started_s = time.perf_counter()
            await caller.register(adapter, f"real-{number}")
            seconds.append(time.perf_counter() - started_s)
    return seconds


async def _measure(node: RunningStore, plan: Plan, draw: random.Random, here: _Found) -> None:
    caller = node.caller
    digests, aliases, pages_s = await _listed(caller, plan.num_calls // 10)
    if len(digests) != here.num_adapters:
        raise BenchError(f"the store lists {len(digests)} adapters, not {here.num_adapters}")
    here.seconds["list a page of 100"] = pages_s
    some = [draw.choice(aliases) for _ in range(plan.num_calls)]
    here.seconds["resolve an alias"] = await _timed(caller.resolve, some)
    some = [draw.choice(digests) for _ in range(plan.num_calls)]
    here.seconds["resolve a digest"] = await _timed(caller.resolve, some)
    here.seconds["get"] = await _timed(caller.get, some[: plan.num_calls // 10])
    changed = draw.sample(digests, min(plan.num_changes, len(digests) // 4))
    pins: list[float] = []
    for digest in changed:
        pins += await _timed(lambda each: caller.pin(each, is_pinned=True), [digest])
        pins += await _timed(lambda each: caller.pin(each, is_pinned=False), [digest])
    here.seconds["pin or unpin"] = pins
    here.rss_mib = node.process.memory_info().rss / 2**20
    here.seconds["delete"] = await _timed(caller.delete, changed)


async def _listed(caller: StoreCaller, min_pages: int) -> tuple[list[str], list[str], list[float]]:
    """All digests, all aliases, and the seconds of each page, in as many passes as it takes."""
    seconds: list[float] = []
    while True:
        digests: list[str] = []
        aliases: list[str] = []
        token = ""
        while True:
            started_s = time.perf_counter()
            page = await caller.page(_PAGE_SIZE, token)
            seconds.append(time.perf_counter() - started_s)
            digests += [adapter.digest for adapter in page.adapters]
            aliases += [alias.name for alias in page.aliases]
            token = page.next_page_token
            if not token:
                break
        if len(seconds) >= min_pages:
            return digests, aliases, seconds


async def _timed(call: Callable[[str], Awaitable[None]], each: Sequence[str]) -> list[float]:
    seconds = []
    for argument in each:
        started_s = time.perf_counter()
        await call(argument)
        seconds.append(time.perf_counter() - started_s)
    return seconds


async def _index_memory(redis: BenchRedis, caller: StoreCaller) -> dict[str, Any]:
    """Bytes of the hot index with a worker that holds 64 adapters."""
    digests, _, _ = await _listed(caller, 0)
    before_bytes = await redis.used_bytes()
    await caller.report(digests[:_NUM_RESIDENT])
    key_bytes = await redis.wait_for_key(worker_key(WORKER))
    grown_bytes = await redis.used_bytes() - before_bytes
    return {
        "resident_adapters": _NUM_RESIDENT,
        "index_bytes": key_bytes,
        "bytes_per_resident_adapter": round(key_bytes / _NUM_RESIDENT),
        "server_grew_bytes": grown_bytes,
    }


def _result(plan: Plan, found: Sequence[_Found], redis_memory: dict[str, Any]) -> BenchResult:
    rows = [
        {
            "operation": name,
            **{
                f"{here.num_adapters:,} {rank}": _milliseconds(here.seconds[name], percent)
                for here in found
                for rank, percent in (("p50", 50), ("p99", 99))
            },
        }
        for name in found[0].seconds
    ]
    first, last = found[0], found[-1]
    resolves = [last.seconds["resolve an alias"], last.seconds["resolve a digest"]]
    targets = [
        Target.at_most(
            f"resolve p99 at {last.num_adapters:,}, ms",
            _MAX_RESOLVE_P99_MS,
            _milliseconds([each for some in resolves for each in some], 99),
        ),
        Target.at_most(
            f"start to ready at {last.num_adapters:,}, s", _MAX_READY_S, round(last.ready_s, 2)
        ),
        *(
            Target.at_most(
                f"{name}: median at {last.num_adapters:,} / {first.num_adapters:,}",
                _MAX_GROWTH,
                round(_median(last.seconds[name]) / _median(first.seconds[name]), 2),
            )
            for name in first.seconds
        ),
    ]
    return BenchResult(
        results={
            "real_registrations": dict(
                zip(map(str, plan.sizes), plan.num_registrations, strict=True)
            ),
            "milliseconds": rows,
            "store": [
                {
                    "adapters": here.num_adapters,
                    "start_to_ready_s": round(here.ready_s, 2),
                    "rss_mib": round(here.rss_mib, 1),
                }
                for here in found
            ],
            "redis": redis_memory,
        },
        targets=targets,
    )


def _median(seconds: Sequence[float]) -> float:
    value = percentile(seconds, 50)
    assert value is not None  # every operation was measured
    return value


def _milliseconds(seconds: Sequence[float], rank: float) -> float | None:
    value_s = percentile(seconds, rank)
    return None if value_s is None else round(value_s * 1000, 3)
