"""The kinds of weight matrices, as numbers and as the bytes the kernels read (src/kernels.h).

Groups are 32 inputs of one output. A 4-bit weight is `scale * value + minimum` with value 0..15,
an 8-bit weight `scale * value` with value -127..127, a symmetric weight of 4, 5 or 6 bits
`scale * value` with value -2^(bits - 1)..2^(bits - 1) - 1; scales and minima are float16. Half
precision means bfloat16, without groups' scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

GROUP = 32
LANES = 16
"""Output rows of one block."""
SYMMETRIC_BITS = (4, 5, 6)


@dataclass(frozen=True, slots=True)
class Matrix4:
    """A 4-bit matrix: scale and minimum [rows, groups] float16, values [rows, groups, 32] uint8."""

    scale: NDArray[np.float16]
    minimum: NDArray[np.float16]
    values: NDArray[np.uint8]

    kind: ClassVar[int] = 2
    """Its number in the packed file."""
    bits_per_weight: ClassVar[float] = 5.0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.scale), self.scale.shape[1] * GROUP

    def dequantise(self) -> NDArray[np.float32]:
        """Returns the weights, [rows, groups * 32]."""
        scale, minimum = (x.astype(np.float32)[..., None] for x in (self.scale, self.minimum))
        weights: NDArray[np.float32] = scale * self.values + minimum
        return weights.reshape(len(self.values), -1)

    def take_rows(self, rows: NDArray[np.intp]) -> Matrix4:
        """Returns the matrix with its rows in another order."""
        return Matrix4(self.scale[rows], self.minimum[rows], self.values[rows])

    def blocks(self) -> NDArray[np.uint8]:
        """Lays the matrix out for the kernels: [rows / 16, groups, 320] bytes."""
        rows, groups = self.scale.shape
        out = np.empty((rows // LANES, groups, 320), dtype=np.uint8)
        out[..., :32] = _lanes_last(self.scale)
        out[..., 32:64] = _lanes_last(self.minimum)
        out[..., 64:] = _nibbles(_parts(self.values))
        return out


@dataclass(frozen=True, slots=True)
class Matrix8:
    """An 8-bit matrix: scale [rows, groups] float16, values [rows, groups, 32] int8."""

    scale: NDArray[np.float16]
    values: NDArray[np.int8]

    kind: ClassVar[int] = 3
    """Its number in the packed file."""
    bits_per_weight: ClassVar[float] = 8.5

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.scale), self.scale.shape[1] * GROUP

    def dequantise(self) -> NDArray[np.float32]:
        """Returns the weights, [rows, groups * 32]."""
        weights: NDArray[np.float32] = self.scale.astype(np.float32)[..., None] * self.values
        return weights.reshape(len(self.values), -1)

    def take_rows(self, rows: NDArray[np.intp]) -> Matrix8:
        """Returns the matrix with its rows in another order."""
        return Matrix8(self.scale[rows], self.values[rows])

    def blocks(self) -> NDArray[np.uint8]:
        """Lays the matrix out for the kernels: [rows / 16, groups, 544] bytes."""
        rows, groups = self.scale.shape
        out = np.empty((rows // LANES, groups, 544), dtype=np.uint8)
        out[..., :32] = _lanes_last(self.scale)
        biased = self.values.view(np.uint8) ^ np.uint8(128)
        out[..., 32:] = _parts(biased).reshape(rows // LANES, groups, 512)
        return out


@dataclass(frozen=True, slots=True)
class SymmetricMatrix:
    """A matrix of 4, 5 or 6 bits around zero.

    scale [rows, groups] float16, which may be negative; values [rows, groups, 32] int8 from
    -2^(bits - 1) to 2^(bits - 1) - 1.
    """

    bits: int
    scale: NDArray[np.float16]
    values: NDArray[np.int8]

    def __post_init__(self) -> None:
        """Raises ValueError for a number of bits that has no kernel."""
        if self.bits not in SYMMETRIC_BITS:
            raise ValueError(f"bits is {self.bits}: symmetric matrices have 4, 5 or 6")

    @property
    def kind(self) -> int:
        """Its number in the packed file."""
        return self.bits

    @property
    def bits_per_weight(self) -> float:
        """Of a weight with its share of the scale."""
        return self.bits + 0.5

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.scale), self.scale.shape[1] * GROUP

    def dequantise(self) -> NDArray[np.float32]:
        """Returns the weights, [rows, groups * 32]."""
        weights: NDArray[np.float32] = self.scale.astype(np.float32)[..., None] * self.values
        return weights.reshape(len(self.values), -1)

    def take_rows(self, rows: NDArray[np.intp]) -> SymmetricMatrix:
        """Returns the matrix with its rows in another order."""
        return SymmetricMatrix(self.bits, self.scale[rows], self.values[rows])

    def blocks(self) -> NDArray[np.uint8]:
        """Lays the matrix out for the kernels: [rows / 16, groups, 32 + 64 * bits] bytes."""
        rows, groups = self.scale.shape
        biased = (self.values + np.int8(1 << (self.bits - 1))).astype(np.uint8)
        parts = _parts(biased)
        out = np.empty((rows // LANES, groups, 32 + 64 * self.bits), dtype=np.uint8)
        out[..., :32] = _lanes_last(self.scale)
        out[..., 32:288] = _nibbles(parts & np.uint8(15))
        # What four bits do not hold: of a byte, the lowest bits are those of the first part.
        each = self.bits - 4
        for at in range(each):
            first = at * 8 // each
            high = np.zeros((rows // LANES, groups, LANES, 4), dtype=np.uint8)
            for number in range(8 // each):
                high |= (parts[:, :, first + number] >> 4) << np.uint8(each * number)
            out[..., 288 + 64 * at : 352 + 64 * at] = high.reshape(rows // LANES, groups, 64)
        return out


@dataclass(frozen=True, slots=True)
class HalfMatrix:
    """A bfloat16 matrix: values [rows, columns] uint16, the upper halves of float32."""

    values: NDArray[np.uint16]

    kind: ClassVar[int] = 7
    """Its number in the packed file."""
    bits_per_weight: ClassVar[float] = 16.0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.values.shape
        return rows, columns

    def dequantise(self) -> NDArray[np.float32]:
        """Returns the weights, [rows, columns]."""
        return (self.values.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def take_rows(self, rows: NDArray[np.intp]) -> HalfMatrix:
        """Returns the matrix with its rows in another order."""
        return HalfMatrix(self.values[rows])

    def blocks(self) -> NDArray[np.uint8]:
        """Lays the matrix out for the kernels: [rows / 16, groups, 1024] bytes."""
        rows, columns = self.values.shape
        parts = self.values.reshape(rows // LANES, LANES, columns // GROUP, GROUP // 2, 2)
        lanes_inside = np.ascontiguousarray(parts.transpose(0, 2, 3, 1, 4), dtype="<u2")
        return lanes_inside.view(np.uint8).reshape(rows // LANES, columns // GROUP, 1024)


Matrix = Matrix4 | Matrix8 | SymmetricMatrix | HalfMatrix


def _parts(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[rows / 16, groups, 8, 16, 4]: four inputs of each of sixteen rows, then the next four."""
    rows, groups, _ = values.shape
    return values.reshape(rows // LANES, LANES, groups, 8, 4).transpose(0, 2, 3, 1, 4)


def _nibbles(parts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[rows / 16, groups, 256]: even parts in the low halves of bytes, odd ones in the high."""
    packed: NDArray[np.uint8] = parts[:, :, 0::2] | (parts[:, :, 1::2] << np.uint8(4))
    return packed.reshape(*packed.shape[:2], 256)


def _lanes_last(halves: NDArray[np.float16]) -> NDArray[np.uint8]:
    rows, groups = halves.shape
    lanes = halves.reshape(rows // LANES, LANES, groups).transpose(0, 2, 1)
    return np.ascontiguousarray(lanes).view(np.uint8)
