"""`python -m edgelora.toolchain.codec_tables`: trains the tables of the adapter codec anew.

Prints `TABLES` for edgelora/adapter_format/codec/tables.py, which `make format` then lays out; some
minutes on one core. The tables are fitted to normal values by Lloyd's algorithm: search the best
windows, move every entry to the mean of the values it stands for, again. What it ends in depends
on where it starts, so several starts are tried and the best is kept.
"""

from __future__ import annotations

import itertools
import math
import sys
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.codec.layout import MAX_LEVEL
from edgelora.adapter_format.codec.tables import Table
from edgelora.adapter_format.codec.trellis import search_indices

WINDOWS = {1: 6, 2: 6, 3: 6, 4: 6, 5: 6, 6: 7, 7: 7}
"""Bits -> window. One bit more would gain 0.1 dB at most and double the time of a search."""
_SPREADS = (1.0, 1.5, 2.0, 3.0)
"""Variances of the normal distribution whose quantiles a table starts from; 3 is the density that
is best without windows (Panter and Dite 1951)."""
_DEALS = ((5, 3), (11, 7), (3, 1))
_ROUNDS = 60
_RUNS, _LENGTH = 512, 256


def main() -> None:
    """Trains and prints every table."""
    draw = np.random.default_rng(20241130)
    values, fresh = (draw.standard_normal((_RUNS, _LENGTH), np.float32) for _ in range(2))
    sys.stdout.write("TABLES: dict[int, Table] = {\n")
    for bits, window in WINDOWS.items():
        table = train_table(values, fresh, bits, window)
        text = table.levels.hex()
        lines = "".join(f'"{text[at : at + 80]}"\n' for at in range(0, len(text), 80))
        sys.stdout.write(
            f"{bits}: Table(unit={table.unit:.4f}, distortion={table.distortion:.3g},\n"
            f"levels=bytes.fromhex(\n{lines})),\n"
        )
    sys.stdout.write("}\n")


def train_table(
    values: NDArray[np.float32],
    fresh: NDArray[np.float32],
    bits: int,
    window: int,
    rounds: int = _ROUNDS,
) -> Table:
    """Fits a table to `values` of unit mean square, and measures it on `fresh` ones."""
    # Without windows all deals are one.
    deals = _DEALS if window > bits else _DEALS[:1]
    best: tuple[float, NDArray[np.float32]] | None = None
    for spread, deal in itertools.product(_SPREADS, deals):
        table = first_table(bits, window, spread, deal)
        for _ in range(rounds):
            windows = search_indices(values, table, bits).ravel()
            counts = np.bincount(windows, minlength=table.size)
            sums = np.bincount(windows, values.ravel(), table.size)
            used = counts > 0
            table[used] = (sums[used] / counts[used]).astype(np.float32)
        error = _distortion(values, table, bits)
        sys.stderr.write(f"{bits} bits, spread {spread}, deal {deal}: {error:.6f}\n")
        if best is None or error < best[0]:
            best = error, table
    assert best is not None
    unit = MAX_LEVEL / float(np.abs(best[1]).max())
    levels = np.rint(best[1] * np.float32(unit)).astype(np.int8)
    distortion = _distortion(fresh, levels.astype(np.float32) / np.float32(unit), bits)
    return Table(unit=unit, distortion=distortion, levels=levels.tobytes())


def first_table(
    bits: int, window: int, spread: float, deal: tuple[int, int]
) -> NDArray[np.float32]:
    """Quantiles of a normal distribution, dealt out so that every past has its own."""
    normal = NormalDist(sigma=math.sqrt(spread))
    states = 1 << (window - bits)
    factor, shift = deal
    table = np.empty(1 << window, np.float32)
    for coarse in range(1 << bits):
        # The next value's past is the upper bits of this index: they get what is finest in it.
        finest = window - bits if window - bits < bits else 0
        index = (coarse & ((1 << finest) - 1)) << (bits - finest) | coarse >> finest
        for past in range(states):
            position = coarse * states + (factor * past + shift) % states
            table[index * states + past] = normal.inv_cdf((position + 0.5) / table.size)
    return table


def _distortion(values: NDArray[np.float32], table: NDArray[np.float32], bits: int) -> float:
    found = table[search_indices(values, table, bits)]
    return float(np.mean((found - values) ** 2, dtype=np.float64))


if __name__ == "__main__":
    main()
