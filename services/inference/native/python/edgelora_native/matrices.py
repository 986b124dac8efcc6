"""Quantised weight matrices, before they are laid out for the kernels.

Groups are 32 inputs of one output. A 4-bit weight is `scale * value + minimum` with value 0..15,
an 8-bit weight `scale * value` with value -127..127; scales and minima are float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GROUP = 32
LANES = 16
"""Output rows of one block."""

_SHRINKS = np.linspace(1.0, 0.7, 13, dtype=np.float32)
"""Ranges tried for a 4-bit group, as shares of the full one."""
_BATCH_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Matrix4:
    """A 4-bit matrix: scale and minimum [rows, groups] float16, values [rows, groups, 32] uint8."""

    scale: NDArray[np.float16]
    minimum: NDArray[np.float16]
    values: NDArray[np.uint8]

    def dequantise(self) -> NDArray[np.float32]:
        """Returns the weights, [rows, groups * 32]."""
        scale, minimum = (x.astype(np.float32)[..., None] for x in (self.scale, self.minimum))
        weights: NDArray[np.float32] = scale * self.values + minimum
        return weights.reshape(len(self.values), -1)

    def take_rows(self, rows: NDArray[np.intp]) -> Matrix4:
        """Returns the matrix with its rows in another order."""
        return Matrix4(self.scale[rows], self.minimum[rows], self.values[rows])

    def blocks(self) -> NDArray[np.uint8]:
        """Lays the matrix out for the kernels: [rows / 16, groups, 320] bytes (src/kernels.h)."""
        rows, groups = self.scale.shape
        out = np.empty((rows // LANES, groups, 320), dtype=np.uint8)
        out[..., :32] = _lanes_last(self.scale)
        out[..., 32:64] = _lanes_last(self.minimum)
        # Byte (lane, j) of part p: input 8p + j in the low nibble, input 8p + 4 + j in the high.
        parts = self.values.reshape(rows // LANES, LANES, groups, 4, 2, 4)
        parts = parts.transpose(0, 2, 3, 4, 1, 5)
        packed = parts[:, :, :, 0] | (parts[:, :, :, 1] << 4)
        out[..., 64:] = packed.reshape(rows // LANES, groups, 256)
        return out


@dataclass(frozen=True, slots=True)
class Matrix8:
    """An 8-bit matrix: scale [rows, groups] float16, values [rows, groups, 32] int8."""

    scale: NDArray[np.float16]
    values: NDArray[np.int8]

    def dequantise(self) -> NDArray[np.float32]:
        """Returns the weights, [rows, groups * 32]."""
        weights: NDArray[np.float32] = self.scale.astype(np.float32)[..., None] * self.values
        return weights.reshape(len(self.values), -1)

    def take_rows(self, rows: NDArray[np.intp]) -> Matrix8:
        """Returns the matrix with its rows in another order."""
        return Matrix8(self.scale[rows], self.values[rows])

    def blocks(self) -> NDArray[np.uint8]:
        """Lays the matrix out for the kernels: [rows / 16, groups, 544] bytes (src/kernels.h)."""
        rows, groups = self.scale.shape
        out = np.empty((rows // LANES, groups, 544), dtype=np.uint8)
        out[..., :32] = _lanes_last(self.scale)
        biased = self.values.view(np.uint8) ^ np.uint8(128)
        parts = biased.reshape(rows // LANES, LANES, groups, 8, 4).transpose(0, 2, 3, 1, 4)
        out[..., 32:] = parts.reshape(rows // LANES, groups, 512)
        return out


Matrix = Matrix4 | Matrix8


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


def concatenate(parts: Sequence[Matrix]) -> Matrix:
    """Stacks matrices of one width, as 8-bit ones as soon as one is."""
    if all(isinstance(part, Matrix4) for part in parts):
        fours = [part for part in parts if isinstance(part, Matrix4)]
        return Matrix4(
            np.concatenate([part.scale for part in fours]),
            np.concatenate([part.minimum for part in fours]),
            np.concatenate([part.values for part in fours]),
        )
    eights = [part if isinstance(part, Matrix8) else quantise8(part.dequantise()) for part in parts]
    return Matrix8(
        np.concatenate([part.scale for part in eights]),
        np.concatenate([part.values for part in eights]),
    )


def pad_rows(matrix: Matrix) -> Matrix:
    """Adds rows of zeros up to the next multiple of `LANES`."""
    missing = -len(matrix.scale) % LANES
    if not missing:
        return matrix
    zeros = np.zeros((missing, matrix.scale.shape[1] * GROUP), dtype=np.float32)
    quantise = quantise4 if isinstance(matrix, Matrix4) else quantise8
    return concatenate([matrix, quantise(zeros)])


def interleave_blocks(first: Matrix, second: Matrix) -> Matrix:
    """Stacks two matrices of one shape, block of 16 rows by block: first, second, first, ..."""
    stacked = concatenate([first, second])
    rows = len(first.scale)
    order = np.arange(2 * rows).reshape(2, rows // LANES, LANES).transpose(1, 0, 2).reshape(-1)
    return stacked.take_rows(order)


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


def _grouped(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    rows, columns = weights.shape
    return weights.reshape(rows, columns // GROUP, GROUP).astype(np.float32, copy=False)


def _lanes_last(halves: NDArray[np.float16]) -> NDArray[np.uint8]:
    rows, groups = halves.shape
    lanes = halves.reshape(rows // LANES, LANES, groups).transpose(0, 2, 1)
    return np.ascontiguousarray(lanes).view(np.uint8)
