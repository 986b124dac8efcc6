"""The orthogonal components of an adapter's products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.codec.layout import (
    FEATURE_MULTIPLE,
    MAX_FEATURES,
    MAX_RANK,
    MODULES,
)
from edgelora.adapter_format.weights import AdapterWeights, LoraPair

_NOISE = 1e-6
"""Singular values below this share of the product of the factors' norms are rounding errors."""


@dataclass(frozen=True, slots=True)
class ModuleComponents:
    """scaling * B A as a sum of `sizes[i] * outputs[i] inputs[i]^T`, largest first."""

    layer: int
    module: int
    """Its number in `MODULES`."""
    sizes: NDArray[np.float64]
    """[components], more than 0."""
    inputs: NDArray[np.float32]
    """[components, in], rows of unit length."""
    outputs: NDArray[np.float32]
    """[components, out], rows of unit length."""


def decompose(weights: AdapterWeights) -> list[ModuleComponents]:
    """Splits every module that changes something, in the order of the file.

    Raises ValueError for a module, size or rank that the format has no room for.
    """
    split = [
        _split(layer, MODULES.index(module), pair)
        for (layer, module), pair in weights.pairs.items()
    ]
    kept = [module for module in split if module.sizes.size]
    return sorted(kept, key=lambda module: (module.layer, module.module))


def _split(layer: int, module: int, pair: LoraPair) -> ModuleComponents:
    rank, num_in = pair.lora_a.shape
    num_out = pair.lora_b.shape[0]
    for features in (num_in, num_out):
        if features % FEATURE_MULTIPLE or features > MAX_FEATURES:
            raise ValueError(f"the encoded form needs multiples of 32 features, not {features}")
    if rank > MAX_RANK:
        raise ValueError(f"the encoded form goes to rank {MAX_RANK}, not {rank}")
    # QR first leaves a matrix of rank x rank to the costly decomposition.
    output_basis, output_mix = np.linalg.qr(pair.lora_b.astype(np.float64))
    input_basis, input_mix = np.linalg.qr(pair.lora_a.T.astype(np.float64))
    left, sizes, right = np.linalg.svd(output_mix @ input_mix.T * pair.scaling)
    largest = np.linalg.norm(output_mix) * np.linalg.norm(input_mix) * abs(pair.scaling)
    count = int(np.count_nonzero(sizes > _NOISE * largest))
    inputs, outputs = right[:count] @ input_basis.T, (output_basis @ left[:, :count]).T
    # A component and its negative are one; which of them comes out depends on the processor.
    signs = np.sign(np.take_along_axis(inputs, np.abs(inputs).argmax(axis=1)[:, np.newaxis], 1))
    return ModuleComponents(
        layer,
        module,
        sizes[:count],
        (inputs * signs).astype(np.float32),
        (outputs * signs).astype(np.float32),
    )
