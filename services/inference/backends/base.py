"""The one interface between the engine and whatever multiplies the matrices.

The engine thinks in sequences, KV blocks and adapter slots; a back end sees one ragged batch a
step and knows nothing of tenants, requests or text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.tensor_file import Buffer
from edgelora.adapter_format.weights import AdapterWeights
from services.chassis.base_model import BaseModel
from services.inference.backends.sampling import ChosenToken, RowSampling


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendLimits:
    """What is allocated once, at load, and never grows."""

    num_kv_blocks: int
    block_size: int
    """Tokens a KV block holds."""
    max_loras: int
    """Adapter slots."""
    max_lora_rank: int
    max_step_tokens: int = 512
    """Most tokens of one step, prefill and decode together."""


@dataclass(frozen=True, slots=True)
class EncodedAdapter:
    """A whole file in the form of docs/codec.md, its hash and the digests in it checked."""

    data: Buffer


LoadableAdapter = AdapterWeights | EncodedAdapter
"""The two forms an adapter is served in."""


class UnfitAdapterError(ValueError):
    """No slot can hold an adapter's weights; the text says why, in words for its owner."""


class SlotWeight(NamedTuple):
    """One adapter's share in a row: its slot, and strength x routing share (not the scaling)."""

    slot: int
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceChunk:
    """The tokens of one sequence that run in this step: a prefill chunk, or one decode token."""

    token_ids: NDArray[np.int32]
    """Shape [n], n >= 1."""
    start_position: int
    """Tokens of the sequence already in the KV cache."""
    block_table: Sequence[int]
    """KV blocks in order; covers start_position + n tokens."""
    adapters: tuple[SlotWeight, ...]
    """Empty: the base model, bit for bit."""
    needs_logits: bool
    """Whether the logits after the last token are wanted."""


def kv_features(model: BaseModel) -> int:
    """Numbers that the keys and values of one token are, in all layers."""
    return model.num_layers * (model.targets["k_proj"][0] + model.targets["v_proj"][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendTelemetry:
    """Memory a back end holds, in bytes."""

    weights_bytes: int
    kv_cache_bytes: int
    adapter_slots_bytes: int


class Backend(Protocol):
    """Runs one model with per-row LoRA adapters.

    Used from one thread, but for `load_adapter` where it may run beside `forward`.
    """

    @property
    def name(self) -> str:
        """What this back end is called in settings and reports."""
        ...

    @property
    def num_threads(self) -> int:
        """Threads that compute, the calling one among them."""
        ...

    @property
    def loads_beside_forward(self) -> bool:
        """Whether one other thread may call `load_adapter` while steps run."""
        ...

    @property
    def canary_tolerance(self) -> float:
        """How far the canary's logits may be from those measured at registration, see
        EffectCheck."""
        ...

    @staticmethod
    def probe() -> str | None:
        """Returns None when this back end can run on this machine, else the reason why not."""
        ...

    def kv_bytes_per_token(self, directory: Path) -> int:
        """Returns the bytes the keys and values of one token of a prepared model take.

        Raises ValueError when the model's files are damaged.
        """
        ...

    def load_model(self, directory: Path, limits: BackendLimits) -> BaseModel:
        """Maps the weights and allocates the KV cache and the adapter slots.

        Raises FileNotFoundError or ValueError when the directory is no prepared model.
        """
        ...

    def load_adapter(self, slot: int, adapter: LoadableAdapter) -> int:
        """Writes an adapter into a free slot, its scaling folded in; returns the bytes it holds.

        The caller guarantees that the slot exists, and that no row of a running step uses it.
        Raises UnfitAdapterError; then the slot is as it was.
        """
        ...

    def unload_adapter(self, slot: int, *, keep_memory: bool = False) -> None:
        """Empties a slot. `keep_memory`: it is to be filled again soon."""
        ...

    def set_num_threads(self, count: int) -> None:
        """Computes with so many threads from the next step on: 1 to those it was made with.

        The others sleep. The results are the same within what the back end promises of a row
        alone and in company.
        """
        ...

    def forward(self, chunks: Sequence[SequenceChunk]) -> NDArray[np.float32]:
        """Runs one step over a ragged batch and writes its keys and values into the KV cache.

        Returns logits, shape [number of chunks with needs_logits, vocab_size], in chunk order.
        """
        ...

    def sample(
        self, logits: NDArray[np.float32], rows: Sequence[RowSampling]
    ) -> list[ChosenToken | None]:
        """Chooses a token from each row of logits, shape [number of rows, vocab_size].

        A row's result depends on nothing but the row and its settings; None for a row that holds
        NaN or an infinity, or whose mask is empty. The logits stay as they are.
        """
        ...

    def telemetry(self) -> BackendTelemetry:
        """Returns the memory held."""
        ...
