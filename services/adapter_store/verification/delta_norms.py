"""Sizes of scaling x B x A and of differences between two of them, without making the products."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format import AdapterWeights, LoraPair

Factor = NDArray[np.float64]


def layer_norms(weights: AdapterWeights) -> Mapping[int, float]:
    """Frobenius norm of all products of a layer together; adapted layers in order."""
    squares: dict[int, float] = {}
    for (layer, _), pair in weights.pairs.items():
        squares[layer] = squares.get(layer, 0.0) + _square(*_factors(pair))
    return {layer: math.sqrt(squares[layer]) for layer in sorted(squares)}


def relative_error(original: AdapterWeights, other: AdapterWeights) -> float:
    """Frobenius norm of the difference of all products over that of the original's.

    A module that `other` lacks counts as nothing there.
    """
    error = size = 0.0
    for key, pair in original.pairs.items():
        factor_a, factor_b = _factors(pair)
        size += _square(factor_a, factor_b)
        if key in other.pairs:
            other_a, other_b = _factors(other.pairs[key])
            factor_a = np.vstack([factor_a, other_a])
            factor_b = np.hstack([factor_b, -other_b])
        error += _square(factor_a, factor_b)
    return math.sqrt(error / size)


def _factors(pair: LoraPair) -> tuple[Factor, Factor]:
    return pair.lora_a.astype(np.float64), pair.lora_b.astype(np.float64) * pair.scaling


def _square(factor_a: Factor, factor_b: Factor) -> float:
    """Squared Frobenius norm of B A, from matrices of rank x rank; rounding may take 0 below it."""
    return max(0.0, float(np.sum((factor_b.T @ factor_b) * (factor_a @ factor_a.T))))
