"""The one interface between the encoder's engine and whatever multiplies the matrices.

As services/inference/backends/base.py, without a KV cache: a step is a batch of whole texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.weights import AdapterWeights
from services.chassis.base_model import BaseModel
from services.inference.backends.base import SlotWeight

Pooling = Literal["mean", "cls", "pooler"]
"""How the vectors of a text's tokens become one: their mean, the first one, or BERT's own pooler
(the first one through a dense layer and tanh)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderLimits:
    """What is allocated once, at load, and never grows."""

    max_loras: int
    """Adapter slots."""
    max_lora_rank: int
    max_step_tokens: int = 1024
    """Most tokens of one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderText:
    """One text of a step."""

    token_ids: NDArray[np.int32]
    """Shape [n], n >= 1, its special tokens included."""
    adapters: tuple[SlotWeight, ...]
    """Empty: the base model, bit for bit."""
    pooling: Pooling


class EncoderBackend(Protocol):
    """Runs one encoder with per-text LoRA adapters. Used from one thread."""

    @property
    def name(self) -> str:
        """What this back end is called in settings and reports."""
        ...

    @property
    def weights_bytes(self) -> int:
        """Memory the weights take."""
        ...

    @property
    def adapter_slots_bytes(self) -> int:
        """Memory the adapter slots take."""
        ...

    @staticmethod
    def probe() -> str | None:
        """Returns None when this back end can run on this machine, else the reason why not."""
        ...

    def load_model(self, directory: Path, limits: EncoderLimits) -> BaseModel:
        """Maps the weights and allocates the adapter slots.

        Raises FileNotFoundError or ValueError when the directory is no prepared encoder.
        """
        ...

    def load_adapter(self, slot: int, weights: AdapterWeights) -> int:
        """Writes an adapter's factors into a free slot; returns the bytes it holds.

        Modules are those of `BaseModel.targets`. Raises UnfitAdapterError; then the slot is as it
        was.
        """
        ...

    def unload_adapter(self, slot: int) -> None:
        """Empties a slot."""
        ...

    def encode(self, texts: Sequence[EncoderText]) -> NDArray[np.float32]:
        """Runs one step; returns the pooled vectors, shape [number of texts, hidden_size].

        A text's result depends on nothing but the text and its adapters. Vectors are not
        normalised.
        """
        ...
