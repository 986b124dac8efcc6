"""Proof that a loaded adapter does something: the canary text's vector with it.

It must be finite and differ from the base model's; a classifier's outputs for it must be finite.
An adapter that is nothing but a classifier leaves the vector as it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.head import ClassifierHead
from edgelora.errors import AdapterRejectedError, InternalError
from services.inference.backends.base import SlotWeight
from services.inference.encoder.backend import EncoderBackend, EncoderText, Pooling
from services.inference.encoder.classification import head_logits

_NOISE = 1e-5
"""Differences up to this share of the largest number are rounding, not an effect (float32)."""


class EffectProof:
    """Runs the canary. Belongs to the engine's thread."""

    def __init__(self, backend: EncoderBackend, token_ids: NDArray[np.int32]) -> None:
        self._backend = backend
        self._token_ids = token_ids
        self._bases: dict[Pooling, NDArray[np.float32]] = {}
        """The base model's vectors, which are always the same."""

    def check(self, slot: int | None, pooling: Pooling, head: ClassifierHead | None) -> None:
        """`slot`: of the adapter's factors, None where it has none.

        Raises AdapterRejectedError when the adapter changes nothing or overflows, InternalError
        when the base model does.
        """
        base = self._base(pooling)
        vector = base
        if slot is not None:
            vector = self._run(pooling, (SlotWeight(slot, 1.0),))
            if not np.isfinite(vector).all():
                raise _overflow()
            if np.abs(vector - base).max() <= _NOISE * np.abs(base).max():
                raise AdapterRejectedError(
                    "the adapter changes nothing in the model's vectors: check that it was trained",
                    field="weights",
                )
        if head is not None:
            try:
                head_logits(head, vector)
            except InternalError:
                raise _overflow() from None

    def _base(self, pooling: Pooling) -> NDArray[np.float32]:
        if pooling not in self._bases:
            base = self._run(pooling, ())
            if not np.isfinite(base).all():
                raise InternalError("the model's output was not a number")
            self._bases[pooling] = base
        return self._bases[pooling]

    def _run(self, pooling: Pooling, adapters: tuple[SlotWeight, ...]) -> NDArray[np.float32]:
        text = EncoderText(token_ids=self._token_ids, adapters=adapters, pooling=pooling)
        vector: NDArray[np.float32] = self._backend.encode([text])[0]
        return vector


def _overflow() -> AdapterRejectedError:
    return AdapterRejectedError(
        "the adapter makes the model overflow: train it with smaller weights", field="weights"
    )
