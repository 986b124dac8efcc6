"""Adapters in memory that look like trained ones: energy falls from component to component."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgelora.adapter_format import AdapterWeights, LoraPair

SHAPES: dict[str, tuple[int, int]] = {
    "q_proj": (96, 96),
    "k_proj": (32, 96),
    "v_proj": (32, 96),
    "o_proj": (96, 96),
    "gate_proj": (256, 96),
    "up_proj": (256, 96),
    "down_proj": (96, 256),
}
"""(out, in) of a small model whose modules the encoded form takes."""


def trained_weights(
    ranks: Mapping[tuple[int, str], int],
    *,
    seed: int = 1,
    decay: float = 0.7,
    scaling: float = 2.0,
    size: float = 0.05,
) -> AdapterWeights:
    """Random pairs by (layer, module); each component is `decay` times the one before."""
    draw = np.random.default_rng(seed)
    pairs = {}
    for (layer, module), rank in ranks.items():
        num_out, num_in = SHAPES[module]
        lora_a = draw.standard_normal((rank, num_in), np.float32)
        lora_b = draw.standard_normal((num_out, rank), np.float32)
        lora_b *= np.float32(size) * np.float32(decay) ** np.arange(rank, dtype=np.float32)
        # Mixed, as training leaves them: no rank is a component of its own.
        mixing = np.linalg.qr(draw.standard_normal((rank, rank)))[0].astype(np.float32)
        pairs[layer, module] = LoraPair(mixing @ lora_a, lora_b @ mixing.T, scaling)
    return AdapterWeights(pairs)


def relative_error(original: AdapterWeights, other: AdapterWeights) -> float:
    """Of all products together, in the Frobenius norm; modules that are not there are zeros."""
    missed = whole = 0.0
    for key, pair in original.pairs.items():
        product = _product(pair)
        found = _product(other.pairs[key]) if key in other.pairs else np.zeros_like(product)
        missed += float(((found - product) ** 2).sum())
        whole += float((product**2).sum())
    return float(np.sqrt(missed / whole))


def _product(pair: LoraPair) -> np.ndarray:
    return pair.scaling * (pair.lora_b.astype(np.float64) @ pair.lora_a.astype(np.float64))
