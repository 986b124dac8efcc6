"""Weight matrices before they are laid out for the kernels: kinds, rounding, and joining them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from edgelora_native.kinds import (
    GROUP,
    LANES,
    SYMMETRIC_BITS,
    HalfMatrix,
    Matrix,
    Matrix4,
    Matrix8,
    SymmetricMatrix,
)
from edgelora_native.rounding import quantise4, quantise8, quantise_symmetric, to_half

__all__ = [
    "GROUP",
    "LANES",
    "SYMMETRIC_BITS",
    "HalfMatrix",
    "Matrix",
    "Matrix4",
    "Matrix8",
    "SymmetricMatrix",
    "concatenate",
    "interleave_blocks",
    "pad_rows",
    "quantise4",
    "quantise8",
    "quantise_symmetric",
    "to_half",
]


def concatenate(parts: Sequence[Matrix]) -> Matrix:
    """Stacks matrices of one width. Of different kinds, all become that of the most bits."""
    widest = max(parts, key=lambda part: part.bits_per_weight)
    alike = [
        part if part.kind == widest.kind else _rounded_like(widest, part.dequantise())
        for part in parts
    ]
    arrays = {
        field.name: np.concatenate([getattr(part, field.name) for part in alike])
        for field in fields(widest)
        if field.name != "bits"
    }
    stacked: Matrix = replace(cast(Any, widest), **arrays)
    return stacked


def pad_rows(matrix: Matrix) -> Matrix:
    """Adds rows of zeros up to the next multiple of `LANES`."""
    rows, columns = matrix.shape
    missing = -rows % LANES
    if not missing:
        return matrix
    zeros = np.zeros((missing, columns), dtype=np.float32)
    return concatenate([matrix, _rounded_like(matrix, zeros)])


def interleave_blocks(first: Matrix, second: Matrix) -> Matrix:
    """Stacks two matrices of one shape, block of 16 rows by block: first, second, first, ..."""
    stacked = concatenate([first, second])
    rows, _ = first.shape
    order = np.arange(2 * rows).reshape(2, rows // LANES, LANES).transpose(1, 0, 2).reshape(-1)
    return stacked.take_rows(order)


def _rounded_like(matrix: Matrix, weights: NDArray[np.float32]) -> Matrix:
    match matrix:
        case Matrix4():
            return quantise4(weights)
        case Matrix8():
            return quantise8(weights)
        case SymmetricMatrix():
            return quantise_symmetric(weights, matrix.bits)
        case HalfMatrix():
            return to_half(weights)
