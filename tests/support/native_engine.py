"""The engine on the native back end and a tiny random model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from edgelora.adapter_format.weights import AdapterWeights, LoraPair
from services.chassis.base_model import NATIVE_FILE, BaseModel, file_digest
from services.inference.backends.base import BackendLimits
from services.inference.backends.native_backend import NativeBackend
from services.inference.engine.config import EngineConfig
from services.inference.engine.engine import Engine
from services.inference.engine.events import Completed, TextDelta
from services.inference.engine.fetched_adapter import FetchedAdapter
from services.inference.engine.iteration_scheduler import StepLimits
from services.inference.engine.sequence import (
    AdapterUse,
    Priority,
    SamplingParams,
    StopConditions,
)
from services.inference.engine.sessions import SessionLimits
from services.inference.engine.token_bytes import TokenBytes

BLOCK_SIZE = 16
MAX_RANK = 8


def write_native_model(folder: Path) -> None:
    """Writes a prepared model of 256 tokens, two layers and a context of 128 tokens."""
    from tests.support.native_probe import SHAPE, TARGETS, write_model

    write_model(folder, "plain", np.random.default_rng(7))
    BaseModel(
        name="tiny",
        digest="sha256:" + "0" * 64,
        family="llama",
        vocab_size=SHAPE.vocab_size,
        hidden_size=SHAPE.hidden_size,
        num_layers=SHAPE.num_layers,
        max_context_tokens=SHAPE.max_context_tokens,
        targets=TARGETS,
        files={NATIVE_FILE: file_digest(folder / NATIVE_FILE)},
    ).save(folder)


def native_weights(seed: int) -> AdapterWeights:
    """An adapter of all modules that changes what the tiny model says."""
    from tests.support.native_probe import SHAPE, TARGETS

    rng = np.random.default_rng(seed)
    rank = 1 + seed % MAX_RANK
    return AdapterWeights(
        {
            (layer, module): LoraPair(
                rng.normal(0, 0.1, (rank, columns)).astype(np.float32),
                rng.normal(0, 0.1, (rows, rank)).astype(np.float32),
                2.0,
            )
            for layer in range(SHAPE.num_layers)
            for module, (rows, columns) in TARGETS.items()
        }
    )


class WeightsByNumber:
    """Brings every adapter whose digest is a number. Implements `EngineObserver`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.num_fetched = 0

    def adapter_wanted(self, digest: str, ticket: object) -> None:
        self.num_fetched += 1
        self._engine.adapter_ready(digest, FetchedAdapter(native_weights(int(digest))))

    def adapter_refused(self, digest: str, error: Exception) -> None:
        raise AssertionError(f"adapter {digest} was refused: {error}")

    def residency_changed(self, loads: object, evictions: object) -> None: ...

    def engine_died(self) -> None:
        raise AssertionError("the engine died")


class NativeEngine:
    """Asks the engine and keeps the bits of its answers."""

    def __init__(self, engine: Engine, observer: WeightsByNumber) -> None:
        self.engine = engine
        self.observer = observer

    async def answer(
        self,
        prompt: list[int],
        adapters: dict[int, float],
        max_tokens: int,
        tenant_id: str | None = "tenant",
        sampling: SamplingParams | None = None,
        priority: Priority = Priority.INTERACTIVE,
        session: str = "",
    ) -> tuple[list[object], Completed]:
        """Tokens with the log probabilities of the likeliest five, and the summary."""
        stream = self.engine.submit(
            list(prompt),
            adapters=tuple(AdapterUse(str(number), weight) for number, weight in adapters.items()),
            stop=StopConditions(max_tokens=max_tokens),
            num_top_logprobs=5,
            sampling=sampling,
            priority=priority,
            tenant_id=tenant_id,
            session=session,
        )
        tokens: list[object] = []
        try:
            async for event in stream:
                if isinstance(event, TextDelta):
                    tokens += event.tokens
                elif isinstance(event, Completed):
                    return tokens, event
        finally:
            stream.close()
        raise AssertionError("the stream ended without a summary")


@asynccontextmanager
async def native_engine(
    folder: Path,
    *,
    num_blocks: int = 64,
    max_loras: int = 3,
    max_num_seqs: int = 8,
    budget: int = 96,
    prefix_caching: bool = True,
    aging_s: float = 15.0,
    backend: NativeBackend | None = None,
    sessions: SessionLimits | None = None,
) -> AsyncIterator[NativeEngine]:
    """Starts an engine on the model in a folder, and stops it."""
    config = EngineConfig(
        model_directory=folder,
        limits=BackendLimits(
            num_kv_blocks=num_blocks + 1,
            block_size=BLOCK_SIZE,
            max_loras=max_loras,
            max_lora_rank=MAX_RANK,
            max_step_tokens=budget,
        ),
        step=StepLimits(max_num_seqs=max_num_seqs, max_num_batched_tokens=budget, aging_s=aging_s),
        token_bytes=TokenBytes([bytes([token]) for token in range(256)]),
        eos_token_ids=frozenset(),
        canary_token_ids=(1, 2, 3, 4),
        prefix_caching=prefix_caching,
        sessions=sessions or SessionLimits(),
    )
    engine = Engine(backend or NativeBackend(num_threads=2), config)
    observer = WeightsByNumber(engine)
    await engine.start(observer)
    try:
        yield NativeEngine(engine, observer)
    finally:
        await engine.stop()
