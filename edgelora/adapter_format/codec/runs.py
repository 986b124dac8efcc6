"""Where the runs of an encoded adapter lie in its payload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.codec.layout import FACTOR_A, FACTOR_B

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs: those of factor A, one for each component, then those of B."""

    factors: Counts
    bits: Counts
    lengths: Counts
    """Values of each."""
    starts: Counts
    """Offset of each in the payload, in bytes."""
    num_bytes: int
    """Of the whole payload."""

    @classmethod
    def lay_out(cls, ranks: Counts, num_in: Counts, num_out: Counts, bits: Counts) -> Runs:
        """Places every run: the A runs of a module, its B runs, the next module.

        `ranks`, `num_in`, `num_out`: of each module; `bits`: of A and B of each component,
        [components, 2].
        """
        module = np.repeat(np.arange(len(ranks)), ranks)
        factors = np.repeat([FACTOR_A, FACTOR_B], len(module))
        lengths = np.concatenate([num_in[module], num_out[module]])
        flat_bits = bits.T.ravel()
        # Components of a module lie together, so an order by (module, factor) is the file's.
        order = np.lexsort([factors, np.tile(module, 2)])
        num_bytes = (lengths * flat_bits // 8)[order]
        ends = np.cumsum(num_bytes)
        starts = np.empty_like(ends)
        starts[order] = ends - num_bytes
        return cls(factors, flat_bits, lengths, starts, int(ends[-1]))

    def places(self, members: Counts) -> Counts:
        """Offsets of every byte of runs of equal bits and length: [runs, bytes]."""
        num_bytes = self.lengths[members[0]] * self.bits[members[0]] // 8
        places: Counts = self.starts[members][:, np.newaxis] + np.arange(num_bytes)
        return places


def alike(*keys: Counts) -> list[Counts]:
    """Groups runs with equal keys; the indices of each group are in order."""
    _, group_of = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    order = np.argsort(group_of, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group_of))[:-1])
