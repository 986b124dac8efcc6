"""Our engine as the worker runs it, without the network: streams are submitted and read back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from edgelora.adapter_format import AdapterWeights, read_adapter
from edgelora.errors import EdgeLoraError
from services.chassis.base_model import BaseModel
from services.inference.backends.base import Backend, BackendLimits
from services.inference.engine.config import EngineConfig
from services.inference.engine.engine import Engine
from services.inference.engine.events import Completed
from services.inference.engine.iteration_scheduler import StepLimits
from services.inference.engine.sequence import AdapterUse, StopConditions
from services.inference.engine.token_bytes import TokenBytes

_BLOCK_SIZE = 16
_CANARY = tuple(range(1000, 1012))
_WARM_TOKENS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast all streams together decoded."""

    tokens_per_s: float
    """Output tokens after each stream's first, over the time from the first to the last."""
    first_token_s: float
    """The last stream's first token, after all were submitted at once."""
    mean_batch_size: float


class _DirectLoads:
    """Gives the engine its adapters from memory, at once."""

    def __init__(self, weights: dict[str, AdapterWeights]) -> None:
        self._weights = weights
        self.engine: Engine | None = None
        self.error: str | None = None

    def adapter_wanted(self, digest: str, ticket: object) -> None:
        assert self.engine is not None
        self.engine.adapter_ready(digest, self._weights[digest])

    def adapter_refused(self, digest: str, error: EdgeLoraError) -> None:
        self.error = error.message

    def residency_changed(self) -> None:
        """Nobody is told here."""

    def engine_died(self) -> None:
        self.error = "the engine died"


class EngineStreams:
    """An engine with every adapter in a slot after `start`."""

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

    async def start(self, prompts: NDArray[np.int32]) -> None:
        """Loads the model and, by running a few tokens, the adapters."""
        await self._engine.start(self._observer)
        await self.measure(prompts, _WARM_TOKENS, with_adapters=True)

    async def stop(self) -> None:
        """Ends the engine's thread."""
        await self._engine.stop()

    async def measure(
        self, prompts: NDArray[np.int32], new_tokens: int, *, with_adapters: bool
    ) -> Speed:
        """Runs one stream a row of `prompts`, [streams, length], all submitted at once.

        Stream i uses adapter i, the adapters in turn.
        """
        runs = [
            self._run(row, new_tokens, self._digests[index % len(self._digests)])
            if with_adapters and self._digests
            else self._run(row, new_tokens, None)
            for index, row in enumerate(prompts)
        ]
        done = await asyncio.gather(*runs)
        window_s = max(one.total_s for one in done) - min(one.first_token_s for one in done)
        return Speed(
            tokens_per_s=sum(one.num_output_tokens - 1 for one in done) / window_s,
            first_token_s=max(one.first_token_s for one in done),
            mean_batch_size=sum(one.mean_batch_size for one in done) / len(done),
        )

    async def _run(
        self, prompt: NDArray[np.int32], new_tokens: int, digest: str | None
    ) -> Completed:
        stream = self._engine.submit(
            prompt.tolist(),
            stop=StopConditions(max_tokens=new_tokens + 1, ignore_eos=True),
            adapters=(AdapterUse(digest, 1.0),) if digest else (),
        )
        try:
            async for event in stream:
                if isinstance(event, Completed):
                    return event
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


def num_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))
