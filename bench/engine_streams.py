"""Our engine as the worker runs it, without the network: streams are submitted and read back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from edgelora.adapter_format import AdapterWeights, read_adapter
from edgelora.errors import EdgeLoraError
from services.chassis.base_model import BaseModel
from services.inference.backends.base import Backend, BackendLimits
from services.inference.engine.config import EngineConfig
from services.inference.engine.engine import Engine
from services.inference.engine.events import Completed, TextDelta
from services.inference.engine.fetched_adapter import FetchedAdapter
from services.inference.engine.iteration_scheduler import StepLimits
from services.inference.engine.sequence import AdapterUse, StopConditions
from services.inference.engine.token_bytes import TokenBytes

_BLOCK_SIZE = 16
_CANARY = tuple(range(1000, 1012))


class _DirectLoads:
    """Gives the engine its adapters from memory, at once."""

    def __init__(self, weights: dict[str, AdapterWeights]) -> None:
        self._weights = weights
        self.engine: Engine | None = None
        self.error: str | None = None

    def adapter_wanted(self, digest: str, ticket: object) -> None:
        assert self.engine is not None
        self.engine.adapter_ready(digest, FetchedAdapter(self._weights[digest]))

    def adapter_refused(self, digest: str, error: EdgeLoraError) -> None:
        self.error = error.message

    def residency_changed(self, loads: object, evictions: object) -> None:
        """Nobody is told here."""

    def engine_died(self) -> None:
        self.error = "the engine died"


class EngineStreams:
    """An engine that gets its adapters from memory when they are first used."""

    def __init__(
        self,
        backend: Backend,
        model_directory: Path,
        adapters: Sequence[Path],
        *,
        max_streams: int,
        max_tokens: int,
    ) -> None:
        """`max_tokens` bounds each stream, prompt included."""
        model = BaseModel.load(model_directory)
        weights = {
            f"sha256:{index:064x}": read_written_adapter(path, model)
            for index, path in enumerate(adapters)
        }
        self._digests = list(weights)
        blocks_per_stream = -(-max_tokens // _BLOCK_SIZE) + 1
        tokenizer = Tokenizer.from_file(str(model_directory / "tokenizer.json"))
        self._observer = _DirectLoads(weights)
        self._engine = Engine(
            backend,
            EngineConfig(
                model_directory=model_directory,
                limits=BackendLimits(
                    num_kv_blocks=max_streams * blocks_per_stream + 8,
                    block_size=_BLOCK_SIZE,
                    max_loras=max(1, len(weights)),
                    max_lora_rank=max((one.max_rank for one in weights.values()), default=1),
                ),
                step=StepLimits(max_num_seqs=16, max_num_batched_tokens=512),
                token_bytes=TokenBytes.from_tokenizer(tokenizer),
                eos_token_ids=frozenset(),
                canary_token_ids=_CANARY,
            ),
        )
        self._observer.engine = self._engine

    async def start(self) -> None:
        """Loads the model."""
        await self._engine.start(self._observer)

    async def measure(
        self, prompts: NDArray[np.int32], adapters: Sequence[int | None], new_tokens: int
    ) -> dict[str, Any]:
        """Runs one stream a row of `prompts`, [streams, length], all submitted at once.

        Stream i uses adapter adapters[i], None is the base. Returns what `decode` of
        bench.peers.child returns.
        """
        done = await asyncio.gather(
            *(
                self._run(row, new_tokens, adapter)
                for row, adapter in zip(prompts, adapters, strict=True)
            )
        )
        total_s = max(ended.total_s for ended, _ in done)
        return {
            "decode_s": total_s - min(ended.first_token_s for ended, _ in done),
            "total_s": total_s,
            "token_ids": [token_ids for _, token_ids in done],
        }

    async def _run(
        self, prompt: NDArray[np.int32], new_tokens: int, adapter: int | None
    ) -> tuple[Completed, list[int]]:
        stream = self._engine.submit(
            prompt.tolist(),
            stop=StopConditions(max_tokens=new_tokens + 1, ignore_eos=True),
            adapters=() if adapter is None else (AdapterUse(self._digests[adapter], 1.0),),
        )
        token_ids: list[int] = []
        try:
            async for event in stream:
                if isinstance(event, TextDelta):
                    token_ids += [token.token_id for token in event.tokens]
                elif isinstance(event, Completed):
                    return event, token_ids
        finally:
            stream.close()
        raise RuntimeError(self._observer.error or "the stream ended without its last event")


def read_written_adapter(directory: Path, model: BaseModel) -> AdapterWeights:
    """Reads an adapter that this package wrote."""
    _, weights = read_adapter(
        (directory / "adapter_config.json").read_bytes(),
        (directory / "adapter_model.safetensors").read_bytes(),
        targets=model.targets,
        num_layers=model.num_layers,
        max_rank=256,
    )
    return weights
