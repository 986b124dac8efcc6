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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgelora.adapter_format.weights import AdapterWeights

RANK_TILE = 16
"""Ranks that are stored, and multiplied, together."""
MIN_GEMM_ROWS = 16
"""Rows of the same slots from which matrix products beat bags on the CPU (measured)."""


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

    A is stored input-major in tiles of `RANK_TILE` ranks of every module, each tile
    [slots * in_features, modules * RANK_TILE]: a step reads the tiles up to the largest rank in
    use. B is [slots * max_rank, out_features] a module, with the scaling folded in.
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
        tile = (max_loras * self._in_features, len(self.modules) * RANK_TILE)
        self._a = [
            [torch.zeros(tile, dtype=dtype, device=device) for _ in range(_num_tiles(max_rank))]
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
        tensors = [tensor for layer in (*self._a, *self._b) for tensor in layer]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def write(self, slot: int, weights: AdapterWeights) -> int:
        """Writes this group's matrices of an adapter into an empty slot; returns their bytes."""
        num_bytes = 0
        for (layer, module), pair in weights.pairs.items():
            if module not in self.modules:
                continue
            index = self.modules.index(module)
            rank = len(pair.lora_a)
            a = torch.from_numpy(pair.lora_a).split(RANK_TILE)  # type: ignore[no-untyped-call]
            for tile, values in zip(self._a_tiles(layer, slot, index, rank), a, strict=True):
                tile.copy_(values.t())
                num_bytes += tile.numel() * tile.element_size()
            b = torch.from_numpy(pair.lora_b).t() * pair.scaling
            rows = self._b_rows(layer, slot, index, rank)
            rows.copy_(b)
            num_bytes += rows.numel() * rows.element_size()
            self._ranks[slot, layer, index] = rank
        return num_bytes

    def clear(self, slot: int) -> None:
        """Zeroes what was written into a slot."""
        for layer, index in np.ndindex(*self._ranks.shape[1:]):
            rank = int(self._ranks[slot, layer, index])
            for tile in self._a_tiles(layer, slot, index, rank):
                tile.zero_()
            self._b_rows(layer, slot, index, rank).zero_()
        self._ranks[slot] = 0

    def _a_tiles(self, layer: int, slot: int, index: int, rank: int) -> Iterator[Tensor]:
        """Yields A^T of one module in parts, [in_features, up to RANK_TILE]."""
        rows = slice(slot * self._in_features, (slot + 1) * self._in_features)
        for number, tile in enumerate(self._a[layer][: _num_tiles(rank)]):
            width = min(RANK_TILE, rank - number * RANK_TILE)
            yield tile[rows, index * RANK_TILE : index * RANK_TILE + width]

    def _b_rows(self, layer: int, slot: int, index: int, rank: int) -> Tensor:
        """Returns B^T of one module, [rank, out_features]."""
        first = slot * self._max_rank
        return self._b[layer][index][first : first + rank]

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
        if not any(ranks):
            return
        x = x[: bags.stop] if bags.pair_rows is None else x[bags.pair_rows]
        indices = bags.indices(self._in_features, self._in_features)
        offsets = bags.offsets(self._in_features)
        tiles = self._a[layer][: _num_tiles(max(ranks))]
        h = self._by_module([_bag_sums(tile, indices, offsets, x) for tile in tiles])
        if bags.weights is not None:
            h *= bags.weights
        for index, (rank, columns) in enumerate(zip(ranks, self._columns, strict=True)):
            if rank > 0:
                b, indices = self._b[layer][index], bags.indices(self._max_rank, rank)
                update = _bag_sums(b, indices, bags.row_offsets(rank), h[index, :, :rank])
                y[: bags.stop, columns].add_(update)

    def _add_run(self, layer: int, y: Tensor, x: Tensor, slot: int, weight: Tensor | None) -> None:
        ranks = self._ranks[slot, layer].tolist()
        if not any(ranks):
            return
        rows = slice(slot * self._in_features, (slot + 1) * self._in_features)
        tiles = self._a[layer][: _num_tiles(max(ranks))]
        h = self._by_module([x @ tile[rows] for tile in tiles])
        if weight is not None:
            h *= weight
        for index, (rank, columns) in enumerate(zip(ranks, self._columns, strict=True)):
            if rank > 0:
                b = self._b_rows(layer, slot, index, rank)
                y[:, columns].addmm_(h[index, :, :rank], b)

    def _by_module(self, products: list[Tensor]) -> Tensor:
        """Turns A x, [rows, modules * RANK_TILE] a tile, into [modules, rows, tiles * RANK_TILE].

        The result is dense: strided weights would take a slow kernel of `embedding_bag`.
        """
        modules = len(self.modules)
        h = torch.stack([part.view(-1, modules, RANK_TILE) for part in products], dim=2)
        return h.transpose(0, 1).reshape(modules, -1, len(products) * RANK_TILE).contiguous()


def _num_tiles(rank: int) -> int:
    return -(-rank // RANK_TILE)


def _bag_sums(bank: Tensor, indices: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
    """Returns for each bag the sum of its rows of `bank`, each times its weight.

    `indices`: the rows, bag after bag; `offsets`: where each bag begins, one more at the end;
    `weights`: one number for each index, of any shape.
    """
    sums: Tensor = torch.embedding_bag(
        bank, indices, offsets, False, 0, False, weights.reshape(-1), True
    )[0]
    return sums
