"""Rounds float32 weights to the kinds of matrices, each group by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgelora_native.kinds import GROUP, HalfMatrix, Matrix4, Matrix8, SymmetricMatrix

_SHRINKS = np.linspace(1.0, 0.7, 13, dtype=np.float32)
"""Ranges tried for a group of few bits, as shares of the full one."""
_BATCH_ROWS = 1024


def quantise8(weights: NDArray[np.float32]) -> Matrix8:
    """Rounds to the nearest of 255 levels in each group. `weights`: [rows, multiple of 32]."""
    grouped = _grouped(weights)
    scale = (np.abs(grouped).max(axis=-1) / 127.0).astype(np.float16)
    step = scale.astype(np.float32)[..., None]
    values = np.divide(grouped, step, out=np.zeros_like(grouped), where=step > 0)
    return Matrix8(scale, np.clip(np.rint(values), -127, 127).astype(np.int8))


def quantise4(weights: NDArray[np.float32]) -> Matrix4:
    """Rounds to 16 levels in each group, in the range that errs least (mean square).

    `weights`: [rows, multiple of 32]. Besides the full range of a group some narrower ones are
    tried: clipping a rare outlier often costs less than a coarser grid for all.
    """
    pieces = [
        _quantise4(_grouped(weights[at : at + _BATCH_ROWS]))
        for at in range(0, len(weights), _BATCH_ROWS)
    ]
    return Matrix4(
        np.concatenate([piece.scale for piece in pieces]),
        np.concatenate([piece.minimum for piece in pieces]),
        np.concatenate([piece.values for piece in pieces]),
    )


def quantise_symmetric(weights: NDArray[np.float32], bits: int) -> SymmetricMatrix:
    """Rounds to 2^bits levels around zero, with the scale that errs least (mean square).

    `weights`: [rows, multiple of 32]; `bits`: 4, 5 or 6, else ValueError. The levels reach one
    step further below zero than above: the value of the largest magnitude takes that side, by a
    negative scale where it is positive.
    """
    pieces = [
        _quantise_symmetric(_grouped(weights[at : at + _BATCH_ROWS]), bits)
        for at in range(0, len(weights), _BATCH_ROWS)
    ]
    return SymmetricMatrix(
        bits,
        np.concatenate([piece.scale for piece in pieces]),
        np.concatenate([piece.values for piece in pieces]),
    )


def to_half(weights: NDArray[np.float32]) -> HalfMatrix:
    """Rounds to bfloat16, halves to even. `weights`: [rows, multiple of 32], finite."""
    bits = np.ascontiguousarray(weights, dtype=np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return HalfMatrix((rounded >> np.uint32(16)).astype(np.uint16))


def _quantise4(grouped: NDArray[np.float32]) -> Matrix4:
    low, high = grouped.min(axis=-1), grouped.max(axis=-1)
    middle, half = (low + high) / 2, (high - low) / 2
    best_error = np.full(low.shape, np.inf, dtype=np.float32)
    scale = np.zeros(low.shape, dtype=np.float16)
    minimum = np.zeros(low.shape, dtype=np.float16)
    values = np.zeros(grouped.shape, dtype=np.uint8)
    for shrink in _SHRINKS:
        tried_minimum = (middle - shrink * half).astype(np.float16)
        tried_scale = (shrink * half * 2 / 15).astype(np.float16)
        step = tried_scale.astype(np.float32)[..., None]
        offset = grouped - tried_minimum.astype(np.float32)[..., None]
        tried = np.divide(offset, step, out=np.zeros_like(offset), where=step > 0)
        tried = np.clip(np.rint(tried), 0, 15)
        error = np.square(step * tried - offset).sum(axis=-1)
        better = error < best_error
        best_error = np.where(better, error, best_error)
        scale = np.where(better, tried_scale, scale)
        minimum = np.where(better, tried_minimum, minimum)
        values = np.where(better[..., None], tried.astype(np.uint8), values)
    return Matrix4(scale, minimum, values)


def _quantise_symmetric(grouped: NDArray[np.float32], bits: int) -> SymmetricMatrix:
    levels = 1 << (bits - 1)
    at = np.abs(grouped).argmax(axis=-1)[..., None]
    extreme = np.take_along_axis(grouped, at, axis=-1)[..., 0]
    best_error = np.full(extreme.shape, np.inf, dtype=np.float32)
    scale = np.zeros(extreme.shape, dtype=np.float16)
    values = np.zeros(grouped.shape, dtype=np.int8)
    # The first range has room for the extreme on both sides of zero.
    for shrink in (levels / (levels - 1), *_SHRINKS):
        tried_scale = (np.float32(-shrink / levels) * extreme).astype(np.float16)
        step = tried_scale.astype(np.float32)[..., None]
        tried = np.divide(grouped, step, out=np.zeros_like(grouped), where=step != 0)
        tried = np.clip(np.rint(tried), -levels, levels - 1)
        error = np.square(step * tried - grouped).sum(axis=-1)
        better = error < best_error
        best_error = np.where(better, error, best_error)
        scale = np.where(better, tried_scale, scale)
        values = np.where(better[..., None], tried.astype(np.int8), values)
    return SymmetricMatrix(bits, scale, values)


def _grouped(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    rows, columns = weights.shape
    return weights.reshape(rows, columns // GROUP, GROUP).astype(np.float32, copy=False)
