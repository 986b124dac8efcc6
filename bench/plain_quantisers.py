"""Ways to quantise LoRA factors to compare with; each returns the factors as they would be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format import AdapterWeights, LoraPair

Floats = NDArray[np.float32]
Quantiser = Callable[[AdapterWeights], tuple[AdapterWeights, float]]
"""Takes an adapter; returns it quantised, and the bits for each of its parameters."""

_GROUP = 64
_NF4 = np.array(
    [
        -1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0.0,
        0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0,
    ],
    np.float32,
)  # fmt: skip
"""The code of 4-bit NormalFloat (QLoRA, arXiv 2305.14314, appendix E)."""


def round_to_nearest(bits: int) -> Quantiser:
    """Even steps from the least to the largest of a group of 64; scale and minimum are halves."""

    def quantise(weights: AdapterWeights) -> tuple[AdapterWeights, float]:
        factors = _each_factor(weights, lambda values: _even(values, bits))
        return factors, bits + 32 / _GROUP

    return quantise


def normal_float(weights: AdapterWeights) -> tuple[AdapterWeights, float]:
    """NF4: blocks of 64 with a float32 scale, as bitsandbytes stores them without nesting."""
    return _each_factor(weights, _nf4), 4 + 32 / _GROUP


QUANTISERS: Mapping[str, Quantiser] = {
    "int3, group 64": round_to_nearest(3),
    "int4, group 64": round_to_nearest(4),
    "NF4, block 64": normal_float,
}
"""By the name a table shows."""


def num_parameters(weights: AdapterWeights) -> int:
    """Values in all factors."""
    return sum(pair.lora_a.size + pair.lora_b.size for pair in weights.pairs.values())


def _each_factor(weights: AdapterWeights, quantise: Callable[[Floats], Floats]) -> AdapterWeights:
    return AdapterWeights(
        {
            key: LoraPair(quantise(pair.lora_a), quantise(pair.lora_b), pair.scaling)
            for key, pair in weights.pairs.items()
        }
    )


def _groups(values: Floats) -> Floats:
    """[groups, 64]; the last one is filled with the last value."""
    flat = values.ravel()
    return np.pad(flat, (0, -flat.size % _GROUP), mode="edge").reshape(-1, _GROUP)


def _as_before(rows: Floats, values: Floats) -> Floats:
    """Takes off what `_groups` added."""
    return rows.ravel()[: values.size].reshape(values.shape)


def _even(values: Floats, bits: int) -> Floats:
    rows = _groups(values)
    least = rows.min(axis=1, keepdims=True).astype(np.float16).astype(np.float32)
    width = rows.max(axis=1, keepdims=True) - least
    steps = (width / (2**bits - 1)).astype(np.float16).astype(np.float32)
    index = np.clip(np.rint((rows - least) / np.where(steps > 0, steps, 1)), 0, 2**bits - 1)
    return _as_before(least + steps * index, values)


def _nf4(values: Floats) -> Floats:
    rows = _groups(values)
    scales = np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    index = np.searchsorted((_NF4[1:] + _NF4[:-1]) / 2, rows / scales)
    return _as_before(_NF4[index] * scales, values)
