"""`loads`: what loading adapters takes inside a worker, and what other streams notice of it.

The engine with the native core in this process, without store and network; adapters of rank 16 on
all linear modules, encoded, from flash. First one after the other on an idle engine: from "wanted"
to "ready to run", and the stages. Then six streams run with one adapter while short requests come
at a fixed rate: for that adapter, or for two others that take turns in the only other slot, so
that each request has to load. Gaps are the times between the streams' tokens, measured where they
are chosen; the cases take turns.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.adapters import ALL_LINEAR, write_random_adapter
from bench.deployment import load_base_model
from bench.engine_streams import read_written_adapter
from bench.measure import median, percentile
from bench.result import BenchError, BenchOptions, BenchResult, Target
from edgelora.adapter_format.codec import encode
from edgelora.errors import EdgeLoraError
from services.chassis.base_model import BaseModel
from services.inference.backends.base import BackendLimits, EncodedAdapter
from services.inference.backends.native_backend import NativeBackend
from services.inference.backends.sampling import ChosenToken, RowSampling
from services.inference.encoded_blobs import check_encoded
from services.inference.engine.adapter_slots import Eviction
from services.inference.engine.config import EngineConfig
from services.inference.engine.engine import Engine
from services.inference.engine.fetched_adapter import FetchCost, FetchedAdapter, FinishedLoad
from services.inference.engine.iteration_scheduler import StepLimits
from services.inference.engine.sequence import AdapterUse, StopConditions
from services.inference.low_priority import lower_thread_priority
from services.inference.model_files import canary_token_ids
from services.inference.shared_blobs import map_blob
from services.inference.tokenizer import TextTokenizer

RANK = 16
_LEVEL = 3.2
_NUM_STREAMS = 6
_PROMPT_TOKENS, _REQUEST_TOKENS = 64, 8
_PERIOD_S = 0.25
_MAX_LOAD_MS = 20.0
_MAX_GAP_GROWTH = 1.1
_HELD, *_TURNS = (f"sha256:{index:064x}" for index in range(3))


def run(options: BenchOptions) -> BenchResult:
    """Loads adapters alone, and beside streams."""
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    num_loads, num_rounds, stream_tokens = (10, 2, 400) if options.quick else (60, 4, 800)
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as name:
        model = load_base_model(options)
        flash = _Flash(Path(name), model, options)
        backend = _TimedBackend(num_threads=options.num_threads)
        engine = _make_engine(backend, options.model_directory, stream_tokens)
        flash.engine = engine
        await engine.start(flash)
        try:
            await _ask(engine, _HELD)
            engine.set_pinned(frozenset({_HELD}))
            for turn in range(num_loads):
                await _ask(engine, _TURNS[turn % 2])
            alone, stages = flash.ready_s[1:], flash.loads[1:]
            if len(alone) < num_loads:
                raise BenchError("an adapter was still there: nothing was measured")
            gaps_s: dict[str, list[float]] = {"memory": [], "loaded": []}
            for number in range(num_rounds):
                for case, asked in (("memory", [_HELD]), ("loaded", _TURNS)):
                    options.progress(f"streams, round {number + 1}, requests: {case}")
                    gaps_s[case] += await _run_streams(engine, backend, asked, stream_tokens)
            beside = flash.ready_s[1 + num_loads :]
        finally:
            await engine.stop()
            flash.close()
    if flash.error is not None:
        raise BenchError(flash.error)
    ready_ms = _ms(median(alone))
    p99 = {case: percentile(gaps, 99) or 0.0 for case, gaps in gaps_s.items()}
    growth = round(p99["loaded"] / p99["memory"], 3)
    results = {
        "ready_ms": {"median": ready_ms, "p95": _ms(percentile(alone, 95))},
        "stages_ms": _stages(stages),
        "beside_streams_ms": {"median": _ms(median(beside)), "p95": _ms(percentile(beside, 95))},
        "loads_per_s_beside_streams": 1 / _PERIOD_S,
        "flash_bytes": flash.num_bytes,
        "gap_ms": {
            case: {f"p{rank}": _ms(percentile(gaps, rank)) for rank in (50, 90, 99)}
            for case, gaps in gaps_s.items()
        },
        "gap_p99_growth": growth,
    }
    return BenchResult(
        results=results,
        targets=[
            Target.at_most("ready_ms", _MAX_LOAD_MS, ready_ms),
            Target.at_most("gap_p99_growth", _MAX_GAP_GROWTH, growth),
        ],
    )


class _TimedBackend(NativeBackend):
    """Notes when the tokens of full steps are chosen."""

    def __init__(self, *, num_threads: int) -> None:
        super().__init__(num_threads=num_threads)
        self.times_s: list[float] = []

    def sample(
        self, logits: NDArray[np.float32], rows: Sequence[RowSampling]
    ) -> list[ChosenToken | None]:
        chosen = super().sample(logits, rows)
        if len(rows) >= _NUM_STREAMS:
            self.times_s.append(time.perf_counter())
        return chosen


class _Flash:
    """Encoded adapters in a directory, read as the worker reads the store's. An EngineObserver."""

    def __init__(self, directory: Path, model: BaseModel, options: BenchOptions) -> None:
        self._directory, self._base_digest = directory, model.digest
        self._blobs: dict[str, str] = {}
        for number, digest in enumerate((_HELD, *_TURNS)):
            options.progress(f"encoding adapter {number + 1}")
            written = write_random_adapter(
                directory / f"adapter-{number}", model, rank=RANK, modules=ALL_LINEAR, seed=number
            )
            data = encode(
                read_written_adapter(written, model),
                digest=digest,
                base_digest=model.digest,
                level=_LEVEL,
            )
            self._blobs[digest] = hashlib.sha256(data).hexdigest()
            (directory / self._blobs[digest]).write_bytes(data)
            self.num_bytes = len(data)
        self._thread = ThreadPoolExecutor(1, initializer=lower_thread_priority)
        self._wanted_s: dict[str, float] = {}
        self.engine: Engine | None = None
        self.ready_s: list[float] = []
        """From wanted to ready, one for each load."""
        self.loads: list[FinishedLoad] = []
        self.error: str | None = None

    def adapter_wanted(self, digest: str, ticket: object) -> None:
        self._wanted_s[digest] = time.perf_counter()
        self._thread.submit(self._fetch, digest)

    def _fetch(self, digest: str) -> None:
        assert self.engine is not None
        started_s = time.perf_counter()
        blob = self._blobs[digest]
        data = map_blob(self._directory, blob, self.num_bytes * 2)
        mapped_s = time.perf_counter()
        check_encoded(data, file_hash=blob, digest=digest, base_digest=self._base_digest)
        cost = FetchCost(
            bytes_read=len(data),
            fetch_s=mapped_s - started_s,
            check_s=time.perf_counter() - mapped_s,
        )
        self.engine.adapter_ready(digest, FetchedAdapter(EncodedAdapter(data), None, cost))

    def adapter_refused(self, digest: str, error: EdgeLoraError) -> None:
        self.error = error.message

    def residency_changed(
        self, loads: Sequence[FinishedLoad], evictions: Sequence[Eviction]
    ) -> None:
        for load in loads:
            self.ready_s.append(time.perf_counter() - self._wanted_s.pop(load.digest))
            self.loads.append(load)

    def engine_died(self) -> None:
        self.error = "the engine died"

    def close(self) -> None:
        self._thread.shutdown()


def _make_engine(backend: NativeBackend, directory: Path, stream_tokens: int) -> Engine:
    tokenizer = TextTokenizer.load(directory)
    num_blocks = (_NUM_STREAMS + 2) * (-(-(_PROMPT_TOKENS + stream_tokens) // 16) + 1)
    return Engine(
        backend,
        EngineConfig(
            model_directory=directory,
            limits=BackendLimits(
                num_kv_blocks=num_blocks, block_size=16, max_loras=2, max_lora_rank=RANK
            ),
            step=StepLimits(max_num_seqs=16, max_num_batched_tokens=512),
            token_bytes=tokenizer.token_bytes,
            eos_token_ids=frozenset(),
            canary_token_ids=canary_token_ids(tokenizer),
        ),
    )


async def _run_streams(
    engine: Engine, backend: _TimedBackend, asked: Sequence[str], num_tokens: int
) -> list[float]:
    """The gaps of streams while requests for `asked` come, in turn."""
    streams = [
        asyncio.create_task(_ask(engine, _HELD, _PROMPT_TOKENS, num_tokens, first_token=n))
        for n in range(_NUM_STREAMS)
    ]
    backend.times_s.clear()
    requests: list[asyncio.Task[None]] = []
    while not all(stream.done() for stream in streams):
        requests.append(asyncio.create_task(_ask(engine, asked[len(requests) % len(asked)])))
        await asyncio.wait(streams, timeout=_PERIOD_S)
    await asyncio.gather(*streams, *requests)
    return [later - earlier for earlier, later in pairwise(backend.times_s)]


async def _ask(
    engine: Engine,
    digest: str,
    num_prompt_tokens: int = _REQUEST_TOKENS,
    num_tokens: int = 1,
    first_token: int = 0,
) -> None:
    stream = engine.submit(
        [1000 + first_token + index for index in range(num_prompt_tokens)],
        stop=StopConditions(max_tokens=num_tokens, ignore_eos=True),
        adapters=(AdapterUse(digest, 1.0),),
    )
    try:
        async for _ in stream:
            pass
    finally:
        stream.close()


def _stages(loads: Sequence[FinishedLoad]) -> dict[str, Any]:
    return {
        "fetch": _ms(median([load.cost.fetch_s for load in loads])),
        "check": _ms(median([load.cost.check_s for load in loads])),
        "decode": _ms(median([load.decode_s for load in loads])),
        "prove": _ms(median([load.prove_s for load in loads])),
    }


def _ms(seconds: float | None) -> float:
    return round((seconds or 0.0) * 1000, 2)
