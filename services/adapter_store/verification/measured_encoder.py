"""The encoder in the native core: proof that an adapter of it does something, and nothing wild.

The same proof as a worker's after loading, in the same slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format import AdapterWeights, ClassifierHead, LoraPair
from edgelora.adapter_format.head import Pooling
from edgelora.error_tree import AdapterRejectedError
from services.adapter_store.verification.certificate import Canary, Measurement
from services.adapter_store.verification.measuring import ENGINE, ORIGINAL

PROBE = "none: nothing is encoded"
_NOISE = 1e-5
"""Differences up to this share of the largest number are rounding, not an effect (float32)."""
_SLOT = 0

Vector = NDArray[np.float32]


class MeasuredEncoder:
    """An encoder with one slot, and its own vectors of the canary text."""

    def __init__(self, packed_file: Path, canary: Sequence[int], *, max_rank: int) -> None:
        """Maps the file, and does once whatever imports or allocates: nothing later does.

        `canary`: token ids of the text. Raises edgelora_native.NativeError.
        """
        from edgelora_native import AdapterFactors, NativeError
        from edgelora_native.encoder import Encoder, EncoderLimits

        self._make_factors, self._native_error = AdapterFactors, NativeError
        self._canary = np.asarray(canary, dtype=np.int32)
        self._encoder = Encoder(
            packed_file,
            EncoderLimits(
                max_loras=1, max_lora_rank=max_rank, max_step_tokens=len(canary), num_threads=1
            ),
        )
        self.description = self._encoder.description
        poolings: tuple[Pooling, ...] = ("mean", "cls")
        if self.description.has_pooler:
            poolings += ("pooler",)
        self._bases = {pooling: self._vector(pooling, adapted=False) for pooling in poolings}
        ones = np.ones((1, self.description.hidden_size), np.float32)
        self._load(AdapterWeights({(0, "query"): LoraPair(ones, ones.T, 1.0)}))
        self._encoder.unload_lora(_SLOT)

    def measure(self, weights: AdapterWeights, head: ClassifierHead | None) -> Measurement:
        """Tries an adapter. Without a classifier its vectors are means.

        Raises AdapterRejectedError when it changes nothing, overflows or can not be loaded.
        """
        pooling = "mean" if head is None else head.pooling
        if pooling not in self._bases:
            raise AdapterRejectedError(
                "head.json: pooling: the encoder has no pooler: train with another pooling",
                field="head.pooling",
            )
        base = vector = self._bases[pooling]
        if weights.pairs:
            try:
                self._load(weights)
            except self._native_error as error:
                raise AdapterRejectedError(
                    f"the adapter can not be loaded: {error}", field="weights"
                ) from None
            vector = self._vector(pooling, adapted=True)
            _check_finite(vector)
            if np.abs(vector - base).max() <= _NOISE * np.abs(base).max():
                raise AdapterRejectedError(
                    "the adapter changes nothing in the model's vectors: check that it was trained",
                    field="weights",
                )
        if head is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                _check_finite(head.weight @ vector + head.bias)
        canary = Canary(
            token_ids=tuple(map(int, self._canary)),
            largest=(),
            largest_change=float(np.abs(vector - base).max()),
        )
        return Measurement(
            engine=ENGINE,
            original=ORIGINAL,
            probe=PROBE,
            divergence=None,
            task=None,
            canary=canary,
        )

    def _load(self, weights: AdapterWeights) -> None:
        self._encoder.load_lora(
            _SLOT,
            [
                self._make_factors(layer, module, pair.lora_a, pair.lora_b, pair.scaling)
                for (layer, module), pair in weights.pairs.items()
            ],
        )

    def _vector(self, pooling: Pooling, *, adapted: bool) -> Vector:
        slots = [(_SLOT, 1.0)] if adapted else []
        vector: Vector = self._encoder.encode([self._canary], [slots], [pooling])[0]
        return vector


def _check_finite(values: Vector) -> None:
    if not np.isfinite(values).all():
        raise AdapterRejectedError(
            "the adapter makes the model overflow: train it with smaller weights", field="weights"
        )
