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
    # The squared distance without the value's own square, which is the same for every path.
    squares = (table * table)[:, np.newaxis]
    slopes = (-2 * table)[:, np.newaxis]
    # costs[t, s]: of the best path to state s, which is the past bits, before value t.
    costs = np.empty((length + 1, states, runs), np.float32)
    costs[0] = np.float32(np.inf)
    costs[0, 0] = 0
    reached = np.empty((table.size, runs), np.float32)
    for step in range(length):
        np.multiply(slopes, values[step], out=reached)
        reached += squares
        # A window's lower bits are the state before it, its upper bits the state after it.
        by_past = reached.reshape(choices, states, runs)
        by_past += costs[step]
        np.minimum.reduce(reached.reshape(states, choices, runs), axis=1, out=costs[step + 1])
    windows = np.empty((length, runs), np.uint8)
    state = costs[length].argmin(axis=0)
    run = np.arange(runs)
    oldest = np.arange(choices)[:, np.newaxis]
    for step in range(length - 1, -1, -1):
        candidates = (state << bits) + oldest
        past = candidates & (states - 1)
        levels = table[candidates]
        total = levels * levels - 2 * levels * values[step] + costs[step][past, run]
        windows[step] = candidates[total.argmin(axis=0), run]
        state = windows[step] & (states - 1)
    return windows
