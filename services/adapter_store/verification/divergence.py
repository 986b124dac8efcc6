"""How far two next-token distributions are from each other, summed over many positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.adapter_store.verification.certificate import Divergence


class DivergenceSum:
    """Adds up rows of logits."""

    def __init__(self) -> None:
        self._positions = 0
        self._agreed = 0
        self._sum_kl = 0.0
        self._max_kl = 0.0

    def add(self, original: NDArray[np.float32], encoded: NDArray[np.float32]) -> None:
        """Takes finite logits of both, [rows, vocab_size]."""
        kl = divergences(original, encoded)
        self._positions += len(kl)
        self._agreed += int((original.argmax(axis=1) == encoded.argmax(axis=1)).sum())
        self._sum_kl += float(kl.sum())
        self._max_kl = max(self._max_kl, float(kl.max()))

    def result(self) -> Divergence:
        """The figures; at least one row has been added."""
        return Divergence(
            positions=self._positions,
            mean_kl=self._sum_kl / self._positions,
            max_kl=self._max_kl,
            top1_agreement=self._agreed / self._positions,
        )


def divergences(original: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """Kullback-Leibler divergence of `other` from `original`, in nats, [rows].

    Both are logits, [rows, vocab_size].
    """
    p = original - original.max(axis=1, keepdims=True)
    q = other - other.max(axis=1, keepdims=True)
    difference = p - q
    sum_q = np.exp(q, out=q).sum(axis=1, dtype=np.float64)
    weights = np.exp(p, out=p)
    sum_p = weights.sum(axis=1, dtype=np.float64)
    mean = np.einsum("ij,ij->i", weights, difference).astype(np.float64) / sum_p
    # Rounding may take what is 0 below it.
    kl: NDArray[np.float64] = np.maximum(mean - np.log(sum_p) + np.log(sum_q), 0.0)
    return kl
