"""Unmerged LoRA for a ragged batch: every row carries its own weighted list of adapter slots.

Two ways compute the same update W x + sum over slots of weight * B (A x):

- few rows a slot (decode): A x and B h are weighted sums of rows of the banks, so each is ONE
  `embedding_bag` call for the whole batch, whatever slots and however many a row uses;
- many rows a slot (prefill, or many streams of one adapter): matrix products a slot, over rows
  that the step has made contiguous.

Both touch only the rows that use an adapter and read only the slots of those rows: a base row
keeps its bits, and an adapter with absurd values spoils nobody else's row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgelora.adapter_format.weights import AdapterWeights

MIN_GEMM_ROWS = 4
"""Rows of the same slots from which matrix products beat bags (measured, see decisions)."""


@dataclass(frozen=True, slots=True)
class LoraRun:
    """Contiguous rows that use the same slots."""

    start: int
    stop: int
    slots: tuple[int, ...]
    weights: tuple[Tensor | None, ...]
    """For each slot: shape [rows, 1], or None where every weight is one."""


@dataclass(slots=True)
class LoraBags:
    """The leading rows of a step, each a bag of (slot, weight) pairs."""

    stop: int
    """These are the rows [0, stop)."""
    slots: Tensor
    """Slot of every pair, int64 [pairs]; the pairs of a row are adjacent."""
    slot_ids: NDArray[np.intp]
    """The distinct slots."""
    first_pair: Tensor
    """int64 [stop + 1]: where the pairs of each row begin."""
    pair_rows: Tensor | None
    """Row of every pair, or None where every row has exactly one."""
    weights: Tensor | None
    """[1, pairs, 1], or None where every weight is one."""
    _indices: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    _offsets: dict[int, Tensor] = field(default_factory=dict)

    def offsets(self, count: int) -> Tensor:
        """Where the bag of each pair begins when it holds `count` rows; one more at the end."""
        if count not in self._offsets:
            pairs = len(self.slots)
            self._offsets[count] = torch.arange(pairs + 1, device=self.slots.device) * count
        return self._offsets[count]

    def row_offsets(self, count: int) -> Tensor:
        """The same for the bag of each row, which holds `count` rows for each of its pairs."""
        return self.offsets(count) if self.pair_rows is None else self.first_pair * count

    def indices(self, stride: int, count: int) -> Tensor:
        """Rows slot * stride + (0 .. count - 1) of every pair, flat."""
        key = (stride, count)
        if key not in self._indices:
            within = torch.arange(count, device=self.slots.device)
            self._indices[key] = (self.slots.unsqueeze(1) * stride + within).view(-1)
        return self._indices[key]


@dataclass(frozen=True, slots=True)
class LoraStep:
    """Which rows of one step use which slots."""

    bags: LoraBags | None
    runs: tuple[LoraRun, ...]


class LoraBank:
    """The slots of one group of modules that read the same input, in every layer.

    `a` is stored input-major, [slots * in_features, max_rank * modules], its columns ordered rank
    by rank, so that a step reads just the leading columns up to the largest rank in use. `b` is
    [slots * max_rank, out_features] a module, with the scaling folded in.
    """

    def __init__(
        self,
        modules: Sequence[str],
        shapes: Sequence[tuple[int, int]],
        *,
        num_layers: int,
        max_loras: int,
        max_rank: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """`shapes`: (out_features, in_features) of each module; all share in_features."""
        self.modules = tuple(modules)
        self._in_features = shapes[0][1]
        self._max_rank = max_rank
        ends = np.cumsum([out for out, _ in shapes]).tolist()
        self._columns = [slice(end - out, end) for end, (out, _) in zip(ends, shapes, strict=True)]
        width = max_rank * len(self.modules)
        self._a = [
            torch.zeros(max_loras * self._in_features, width, dtype=dtype, device=device)
            for _ in range(num_layers)
        ]
        self._b = [
            [
                torch.zeros(max_loras * max_rank, out, dtype=dtype, device=device)
                for out, _ in shapes
            ]
            for _ in range(num_layers)
        ]
        # Rank in use by slot, layer and module: what lies beyond is zero and is never read.
        self._ranks = np.zeros((max_loras, num_layers, len(self.modules)), dtype=np.intp)

    @property
    def num_bytes(self) -> int:
        """Memory reserved, in bytes (untouched pages are not resident)."""
        tensors = [*self._a, *(b for layer in self._b for b in layer)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def write(self, slot: int, weights: AdapterWeights) -> None:
        """Writes this group's matrices of an adapter into an empty slot."""
        for (layer, module), pair in weights.pairs.items():
            if module not in self.modules:
                continue
            index = self.modules.index(module)
            rank = pair.lora_a.shape[0]
            a, b = self._slot(layer, slot, index, rank)
            a.copy_(torch.from_numpy(pair.lora_a).t())
            b.copy_(torch.from_numpy(pair.lora_b).t() * pair.scaling)
            self._ranks[slot, layer, index] = rank

    def clear(self, slot: int) -> None:
        """Zeroes what was written into a slot."""
        for layer, index in np.ndindex(*self._ranks.shape[1:]):
            for tensor in self._slot(layer, slot, index, int(self._ranks[slot, layer, index])):
                tensor.zero_()
        self._ranks[slot] = 0

    def _slot(self, layer: int, slot: int, index: int, rank: int) -> tuple[Tensor, Tensor]:
        modules, inputs = len(self.modules), self._in_features
        a = self._a[layer][slot * inputs : (slot + 1) * inputs, index : rank * modules : modules]
        first = slot * self._max_rank
        return a, self._b[layer][index][first : first + rank]

    def begin(self, step: LoraStep) -> None:
        """Makes `step` the one that `add` works on."""
        self._step = step
        if step.bags is not None:
            self._bag_ranks: list[list[int]] = self._ranks[step.bags.slot_ids].max(axis=0).tolist()

    def add(self, layer: int, y: Tensor, x: Tensor) -> None:
        """Adds the updates to y, [rows, sum of out_features], from x, [rows, in_features]."""
        if self._step.bags is not None:
            self._add_bags(layer, y, x, self._step.bags)
        for run in self._step.runs:
            for slot, weight in zip(run.slots, run.weights, strict=True):
                self._add_run(layer, y[run.start : run.stop], x[run.start : run.stop], slot, weight)

    def _add_bags(self, layer: int, y: Tensor, x: Tensor, bags: LoraBags) -> None:
        ranks = self._bag_ranks[layer]
        rank, modules, inputs = max(ranks), len(self.modules), self._in_features
        if rank == 0:
            return
        x = x[: bags.stop] if bags.pair_rows is None else x[bags.pair_rows]
        a = self._a[layer][:, : rank * modules]
        h = _bag_sums(a, bags.indices(inputs, inputs), bags.offsets(inputs), x)
        # The flat view of a module's part must be dense: strided weights take a slow kernel.
        h = h.view(-1, rank, modules).permute(2, 0, 1).contiguous()
        if bags.weights is not None:
            h *= bags.weights
        for index, (rank, columns) in enumerate(zip(ranks, self._columns, strict=True)):
            if rank > 0:
                b, indices = self._b[layer][index], bags.indices(self._max_rank, rank)
                update = _bag_sums(b, indices, bags.row_offsets(rank), h[index, :, :rank])
                y[: bags.stop, columns].add_(update)

    def _add_run(self, layer: int, y: Tensor, x: Tensor, slot: int, weight: Tensor | None) -> None:
        ranks = self._ranks[slot, layer].tolist()
        rank, modules, inputs = max(ranks), len(self.modules), self._in_features
        if rank == 0:
            return
        a = self._a[layer][slot * inputs : (slot + 1) * inputs, : rank * modules]
        h = (x @ a).view(-1, rank, modules).permute(2, 0, 1).contiguous()
        if weight is not None:
            h *= weight
        first = slot * self._max_rank
        for index, (rank, columns) in enumerate(zip(ranks, self._columns, strict=True)):
            if rank > 0:
                b = self._b[layer][index][first : first + rank]
                y[:, columns].addmm_(h[index, :, :rank], b)


def _bag_sums(bank: Tensor, indices: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
    """Returns for each bag the sum of its rows of `bank`, each times its weight.

    `indices`: the rows, bag after bag; `offsets`: where each bag begins, one more at the end;
    `weights`: one number for each index, of any shape.
    """
    sums: Tensor = torch.embedding_bag(
        bank, indices, offsets, False, 0, False, weights.reshape(-1), True
    )[0]
    return sums
