"""Trellis-coded quantisation: the string of indices whose look-ups come closest to given values.

The table is looked up by a value's own index and by the last bits of the indices before it
(docs/codec.md), so the choice for one value bears on the next ones: a shortest path, found by
Viterbi's algorithm. Marcellin and Fischer, "Trellis coded quantization", IEEE Trans. Comm. 38
(1990); in the bit-shift form of QTIP (arXiv 2406.11235).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_RUNS_AT_ONCE = 512
"""Keeps one step's costs, 2^window for each run, in the processor's cache."""
_UNREACHABLE = np.float32(1e30)


def search_indices(
    values: NDArray[np.float32], table: NDArray[np.float32], bits: int
) -> NDArray[np.uint8]:
    """Finds the indices of least squared error.

    `values`: [runs, length]; each run starts with past bits of 0. `table`: [2^window] of what a
    window stands for, in the unit of the values. Returns windows, [runs, length]; the index is in
    the upper `bits` bits of each.
    """
    if table.size == 1 << bits:
        return _nearest(values, table)
    windows = np.empty(values.shape, np.uint8)
    for start in range(0, len(values), _RUNS_AT_ONCE):
        part = slice(start, start + _RUNS_AT_ONCE)
        windows[part] = _viterbi(np.ascontiguousarray(values[part].T), table, bits).T
    return windows


def _nearest(values: NDArray[np.float32], table: NDArray[np.float32]) -> NDArray[np.uint8]:
    order = np.argsort(table, kind="stable")
    ordered = table[order]
    return order.astype(np.uint8)[np.searchsorted((ordered[1:] + ordered[:-1]) / 2, values)]


def _viterbi(
    values: NDArray[np.float32], table: NDArray[np.float32], bits: int
) -> NDArray[np.uint8]:
    """`values`: [length, runs], as is the result."""
    length, runs = values.shape
    choices = 1 << bits
    states = table.size // choices
    # A window's upper bits are the state after it, its lower `bits` bits tell the windows apart
    # that end in one state. They replace the last bits of the cost's mantissa, whose order is the
    # same as an integer: so the least of the costs says whose it is.
    mask = np.int32(choices - 1)
    choice = (np.arange(table.size, dtype=np.int32) & mask)[:, np.newaxis]
    column = table[:, np.newaxis]
    reached = np.empty((table.size, runs), np.float32)
    keys = reached.view(np.int32)
    costs = np.full((states, runs), _UNREACHABLE)
    costs[0] = 0
    best = np.empty((states, runs), np.int32)
    came_by = np.empty((length, states, runs), np.uint8)
    for step in range(length):
        np.subtract(column, values[step], out=reached)
        np.multiply(reached, reached, out=reached)
        by_past = reached.reshape(choices, states, runs)
        by_past += costs
        keys &= ~mask
        keys |= choice
        np.minimum.reduce(keys.reshape(states, choices, runs), axis=1, out=best)
        np.bitwise_and(best, mask, out=came_by[step], casting="unsafe")
        costs = best.view(np.float32)
    windows = np.empty((length, runs), np.uint8)
    state = best.argmin(axis=0)
    run = np.arange(runs)
    for step in range(length - 1, -1, -1):
        window = (state << bits) | came_by[step].ravel().take(state * runs + run)
        windows[step] = window
        state = window & (states - 1)
    return windows
