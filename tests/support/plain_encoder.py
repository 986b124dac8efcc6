"""A back end for the encoder's engine whose vectors tell what was run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format import AdapterWeights, LoraPair
from services.chassis.base_model import BaseModel
from services.inference.encoder.backend import EncoderLimits, EncoderText
from tests.support.tiny_encoder import CONTEXT, HIDDEN, LAYERS, TARGETS


def plain_weights(mark: float) -> AdapterWeights:
    """Weights of one module, told apart by their mark."""
    a = np.full((1, HIDDEN), mark, dtype=np.float32)
    return AdapterWeights({(0, "query"): LoraPair(a, np.ones((HIDDEN, 1), np.float32), 1.0)})


def expected_vector(
    token_ids: NDArray[np.int32], pooling: str, marks: Sequence[tuple[float, float]]
) -> NDArray[np.float32]:
    """What a text gives with adapters of these (mark, weight)."""
    text = f"{token_ids.tolist()} {pooling} {[(float(mark), weight) for mark, weight in marks]}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(HIDDEN).astype(np.float32)


class PlainEncoder:
    """Implements EncoderBackend without a model. A slot that was not filled is an error."""

    name = "plain"
    weights_bytes = 1000
    adapter_slots_bytes = 4000

    def __init__(self) -> None:
        self.slots: dict[int, float] = {}
        self.steps: list[list[EncoderText]] = []
        self.fail_on: Callable[[Sequence[EncoderText]], None] = lambda texts: None
        """May raise."""
        self.result: Callable[[EncoderText, NDArray[np.float32]], NDArray[np.float32]] = (
            lambda text, vector: vector
        )

    @staticmethod
    def probe() -> str | None:
        return None

    def load_model(self, directory: Path, limits: EncoderLimits) -> BaseModel:
        self.limits = limits
        return BaseModel(
            name="plain",
            digest="sha256:" + "0" * 64,
            family="bert",
            vocab_size=100,
            hidden_size=HIDDEN,
            num_layers=LAYERS,
            max_context_tokens=CONTEXT,
            targets=TARGETS,
            files={},
            pooling="mean",
        )

    def load_adapter(self, slot: int, weights: AdapterWeights) -> int:
        assert slot not in self.slots
        assert 0 <= slot < self.limits.max_loras
        self.slots[slot] = float(weights.pairs[0, "query"].lora_a[0, 0])
        return 100

    def unload_adapter(self, slot: int) -> None:
        self.slots.pop(slot, None)

    def encode(self, texts: Sequence[EncoderText]) -> NDArray[np.float32]:
        assert sum(len(text.token_ids) for text in texts) <= self.limits.max_step_tokens
        self.steps.append(list(texts))
        self.fail_on(texts)
        return np.stack([self.result(text, self._vector(text)) for text in texts])

    def _vector(self, text: EncoderText) -> NDArray[np.float32]:
        marks = [(self.slots[use.slot], use.weight) for use in text.adapters]
        return expected_vector(text.token_ids, text.pooling, marks)
