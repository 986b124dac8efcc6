"""A small deterministic back end: what it answers depends on the KV cache and nothing else.

It keeps token ids, mixed with the contents of the adapters they ran with, where a real one keeps
keys and values, and derives each row of logits from a hash of everything it reads back through the
block table and of the adapters' contents. A wrong block table, a stale slot, a strength of another
time or a lost token therefore changes the output.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.codec import decode
from edgelora.adapter_format.weights import AdapterWeights, LoraPair
from services.chassis.base_model import BaseModel
from services.inference.backends.base import (
    BackendLimits,
    BackendTelemetry,
    EncodedAdapter,
    LoadableAdapter,
    SequenceChunk,
    kv_features,
)
from services.inference.backends.numpy_sampling import sample_rows
from services.inference.backends.sampling import ChosenToken, RowSampling
from tests.support.adapter_files import TINY_LAYERS, TINY_TARGETS

VOCAB_SIZE = 96
CONTEXT_TOKENS = 128
SLOT_BYTES = 100
"""Most a slot holds; an adapter takes 10 for each rank."""


def stand_in_model(vocab_size: int = VOCAB_SIZE) -> BaseModel:
    """The description that goes with the back end."""
    return BaseModel(
        name="stand-in",
        digest="sha256:" + "0" * 64,
        family="llama",
        vocab_size=vocab_size,
        hidden_size=32,
        num_layers=TINY_LAYERS,
        max_context_tokens=CONTEXT_TOKENS,
        targets=TINY_TARGETS,
        files={},
    )


def stand_in_weights(seed: int, *, scale: float = 1.0) -> AdapterWeights:
    """An adapter the back end tells apart by its values; scale 0 makes one without effect."""
    rng = np.random.default_rng(seed)
    lora_a = rng.standard_normal((2, 32)).astype(np.float32)
    lora_b = rng.standard_normal((32, 2)).astype(np.float32) * np.float32(scale)
    return AdapterWeights({(0, "q_proj"): LoraPair(lora_a, lora_b, 1.0)})


class StandInBackend:
    """Implements `base.Backend` without a model.

    Set `before_forward` to observe, delay or fail a step; set `edit_logits` to change rows (it
    gets the chunks that asked for logits and the array).
    """

    name = "stand-in"
    loads_beside_forward = True
    canary_tolerance = 1e-3

    def __init__(self, vocab_size: int = VOCAB_SIZE) -> None:
        self._vocab_size = vocab_size
        self.before_forward: Callable[[Sequence[SequenceChunk]], None] = lambda chunks: None
        self.edit_logits: Callable[[list[SequenceChunk], NDArray[np.float32]], None] = (
            lambda chunks, logits: None
        )
        self.num_threads = 4
        self.num_forwards = 0
        self.loads: list[int] = []

    @staticmethod
    def probe() -> str | None:
        return None

    def kv_bytes_per_token(self, directory: Path) -> int:
        return kv_features(BaseModel.load(directory)) * 4

    def load_model(self, directory: Path, limits: BackendLimits) -> BaseModel:
        self.limits = limits
        self._cache = np.full((limits.num_kv_blocks, limits.block_size), 10**6, dtype=np.int64)
        self._slots: list[AdapterWeights | None] = [None] * limits.max_loras
        return stand_in_model(self._vocab_size)

    def load_adapter(self, slot: int, adapter: LoadableAdapter) -> int:
        assert self._slots[slot] is None, "a slot must be unloaded before it is loaded again"
        weights = decode(adapter.data) if isinstance(adapter, EncodedAdapter) else adapter
        self._slots[slot] = weights
        self.loads.append(slot)
        return 10 * weights.max_rank

    def unload_adapter(self, slot: int, *, keep_memory: bool = False) -> None:
        self._slots[slot] = None

    def set_num_threads(self, count: int) -> None:
        self.num_threads = count

    def forward(self, chunks: Sequence[SequenceChunk]) -> NDArray[np.float32]:
        assert chunks
        assert sum(len(chunk.token_ids) for chunk in chunks) <= self.limits.max_step_tokens
        self.num_forwards += 1
        self.before_forward(chunks)
        wanted = [chunk for chunk in chunks if chunk.needs_logits]
        holders = Counter(block for chunk in chunks for block in set(chunk.block_table))
        for chunk in chunks:
            written, _ = self._positions(chunk, chunk.start_position, _end(chunk))
            assert all(holders[block] == 1 for block in written), "a shared block is written"
            self._write(chunk)
        rows = [self._row(chunk) for chunk in wanted]
        logits = np.stack(rows) if rows else np.empty((0, self._vocab_size), dtype=np.float32)
        self.edit_logits(wanted, logits)
        return logits

    def sample(
        self, logits: NDArray[np.float32], rows: Sequence[RowSampling]
    ) -> list[ChosenToken | None]:
        return sample_rows(logits, rows)

    def telemetry(self) -> BackendTelemetry:
        return BackendTelemetry(
            weights_bytes=1,
            kv_cache_bytes=2,
            adapter_slots_bytes=SLOT_BYTES * self.limits.max_loras,
        )

    def _positions(self, chunk: SequenceChunk, start: int, end: int) -> tuple[list[int], list[int]]:
        size = self.limits.block_size
        blocks = [chunk.block_table[position // size] for position in range(start, end)]
        return blocks, [position % size for position in range(start, end)]

    def _write(self, chunk: SequenceChunk) -> None:
        mixed_in = 0
        if adapted := self._adapted(chunk):
            mixed_in = 1000 * int.from_bytes(hashlib.sha256(adapted).digest()[:4], "little")
        values = chunk.token_ids.astype(np.int64) + mixed_in
        self._cache[self._positions(chunk, chunk.start_position, _end(chunk))] = values

    def _adapted(self, chunk: SequenceChunk) -> bytes:
        """What the adapters of a chunk change; empty for the base model."""
        parts = []
        for use in chunk.adapters:
            weights = self._slots[use.slot]
            assert weights is not None, "a row uses an empty slot"
            pair = weights.pairs[0, "q_proj"]
            if pair.lora_b.any():
                parts.append(pair.lora_a.tobytes() + np.float64(use.weight).tobytes())
        return b"".join(parts)

    def _row(self, chunk: SequenceChunk) -> NDArray[np.float32]:
        state = hashlib.sha256(self._cache[self._positions(chunk, 0, _end(chunk))].tobytes())
        state.update(self._adapted(chunk))
        rng = np.random.default_rng(int.from_bytes(state.digest()[:8], "little"))
        return rng.standard_normal(self._vocab_size).astype(np.float32) * 3


def _end(chunk: SequenceChunk) -> int:
    return chunk.start_position + len(chunk.token_ids)
