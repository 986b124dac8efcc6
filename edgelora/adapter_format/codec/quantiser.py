"""From the unit vectors of an adapter's components to levels and packed runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.codec.codebook import Codebook, pack
from edgelora.adapter_format.codec.layout import MAX_BITS, MAX_LEVEL
from edgelora.adapter_format.codec.runs import Runs, alike
from edgelora.adapter_format.codec.tables import TABLES
from edgelora.adapter_format.codec.trellis import search_indices


def codebook_of(bits: int) -> Codebook:
    """The codebook an encoder uses for a number of bits: with 8, every level there is."""
    if bits == MAX_BITS:
        return Codebook(bits, np.maximum(np.arange(256) - 128, -MAX_LEVEL).astype(np.int8))
    return Codebook(bits, np.frombuffer(TABLES[bits].levels, np.int8))


def write_runs(
    rows: list[NDArray[np.float32]], runs: Runs, payload: NDArray[np.uint8]
) -> NDArray[np.float64]:
    """Quantises rows of unit length, one for each run, into the payload.

    Returns what each row of levels has to be multiplied with to come closest to its row.
    """
    gains = np.empty(len(rows))
    for members in alike(runs.bits, runs.lengths):
        bits = int(runs.bits[members[0]])
        book = codebook_of(bits)
        values = np.stack([rows[member] for member in members])
        windows = search_indices(_in_levels(values, bits), book.table.astype(np.float32), bits)
        payload[runs.places(members)] = pack(windows, book)
        levels = book.table[windows].astype(np.float32)
        # A run of nothing but zeros stands for nothing, whatever it is multiplied with.
        squares = np.maximum(np.einsum("ij,ij->i", levels, levels), 1)
        gains[members] = np.einsum("ij,ij->i", levels, values) / squares
    return gains


def _in_levels(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    if bits == MAX_BITS:
        units = MAX_LEVEL / np.abs(values).max(axis=1, keepdims=True)
    else:
        units = np.float32(TABLES[bits].unit * np.sqrt(values.shape[1]))
    scaled: NDArray[np.float32] = values * units
    return scaled
