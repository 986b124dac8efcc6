"""The torch back end driven without the engine: what the matrix products alone allow."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.engine_streams import read_written_adapter
from services.chassis.base_model import BaseModel
from services.inference.backends.base import Backend, BackendLimits, SequenceChunk, SlotWeight

PREFILL_TOKENS = 64
"""Length of the prompts whose prefill is timed; all run in one step."""
_BLOCK_SIZE = 16
_REPEATS = 3


async def measure_backend(
    model_directory: Path,
    adapters: Sequence[Path],
    *,
    streams: int,
    new_tokens: int,
    num_threads: int,
    dtype: str,
) -> dict[str, float]:
    """Returns decode and prefill speed in tokens a second over all streams.

    Stream i uses adapter i, the adapters in turn. Runs in a process of its own, so that torch has
    one thread team there.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return await asyncio.get_running_loop().run_in_executor(
            pool, _measure, model_directory, list(adapters), streams, new_tokens, num_threads, dtype
        )


def _measure(
    model_directory: Path,
    adapters: list[Path],
    streams: int,
    new_tokens: int,
    num_threads: int,
    dtype: str,
) -> dict[str, float]:
    from services.inference.backends.torch_factory import make_torch_backend

    alone = _BackendAlone(
        make_torch_backend(num_threads=num_threads, dtype=dtype),
        model_directory,
        adapters,
        streams=streams,
        tokens_each=PREFILL_TOKENS + new_tokens,
    )
    vocabulary = BaseModel.load(model_directory).vocab_size
    prompts = np.random.default_rng(0).integers(
        100, vocabulary, (streams, PREFILL_TOKENS), dtype=np.int32
    )
    alone.step(prompts, 0)
    prefill_s = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        ids = alone.step(prompts, 0)
        prefill_s.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for position in range(PREFILL_TOKENS, PREFILL_TOKENS + new_tokens):
        ids = alone.step(ids, position)
    decode_s = time.perf_counter() - begin
    return {
        "decode_tokens_per_s": round(streams * new_tokens / decode_s, 1),
        "prefill_tokens_per_s": round(prompts.size / sorted(prefill_s)[_REPEATS // 2], 1),
    }


class _BackendAlone:
    """A back end with every adapter in a slot and a fixed range of blocks for each stream."""

    def __init__(
        self,
        backend: Backend,
        model_directory: Path,
        adapters: Sequence[Path],
        *,
        streams: int,
        tokens_each: int,
    ) -> None:
        self._backend = backend
        self._num_adapters = len(adapters)
        self._blocks_each = -(-tokens_each // _BLOCK_SIZE)
        model = BaseModel.load(model_directory)
        weights = [read_written_adapter(path, model) for path in adapters]
        backend.load_model(
            model_directory,
            BackendLimits(
                num_kv_blocks=streams * self._blocks_each,
                block_size=_BLOCK_SIZE,
                max_loras=len(weights),
                max_lora_rank=max(one.max_rank for one in weights),
            ),
        )
        for slot, one in enumerate(weights):
            backend.load_adapter(slot, one)

    def step(self, ids: NDArray[np.int32], position: int) -> NDArray[np.int32]:
        """Runs [streams, tokens] at `position`; returns the likeliest next ids, [streams, 1]."""
        each = self._blocks_each
        logits = self._backend.forward(
            [
                SequenceChunk(
                    token_ids=tokens,
                    start_position=position,
                    block_table=range(row * each, (row + 1) * each),
                    adapters=(SlotWeight(row % self._num_adapters, 1.0),),
                    needs_logits=True,
                )
                for row, tokens in enumerate(ids)
            ]
        )
        chosen: NDArray[np.int32] = logits.argmax(axis=-1).astype(np.int32)[:, None]
        return chosen
