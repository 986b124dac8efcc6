"""A codebook: what the indices of one factor with one number of bits stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Codebook:
    """A table of levels, looked up by windows of `window` bits that move on by `bits` bits."""

    bits: int
    table: NDArray[np.int8]
    """[2^window], from -127 to 127."""

    @property
    def window(self) -> int:
        """Bits of one look-up: of the value's own index, and of those before it."""
        return int(self.table.size).bit_length() - 1


def pack(windows: NDArray[np.uint8], codebook: Codebook) -> NDArray[np.uint8]:
    """Packs the indices of runs, [runs, length], into [runs, length * bits / 8] bytes."""
    own = windows >> np.uint8(codebook.window - codebook.bits)
    columns = [(own >> np.uint8(bit)) & np.uint8(1) for bit in range(codebook.bits)]
    string = np.stack(columns, axis=-1).reshape(len(windows), -1)
    return np.packbits(string, axis=1, bitorder="little")


def look_up(packed: NDArray[np.uint8], codebook: Codebook) -> NDArray[np.int8]:
    """Decodes runs, [runs, bytes], into levels, [runs, 8 * bytes / bits]."""
    before = codebook.window - codebook.bits
    string = np.unpackbits(packed, axis=1, bitorder="little")
    # Before a run its bits read as 0.
    string = np.pad(string, ((0, 0), (before, 0)))
    length = (string.shape[1] - before) // codebook.bits
    windows = np.zeros((len(packed), length), np.uint8)
    for bit in range(codebook.window):
        column = string[:, bit : bit + length * codebook.bits : codebook.bits]
        windows |= column[:, :length] << np.uint8(bit)
    return codebook.table[windows]
