"""Puts the chunks of a step in the order that keeps the rows of the same adapters together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from services.inference.backends.base import SequenceChunk, SlotWeight
from services.inference.backends.torch_lora import MIN_GEMM_ROWS, LoraBags, LoraRun, LoraStep


def order_chunks(
    chunks: Sequence[SequenceChunk], device: torch.device
) -> tuple[list[int], LoraStep]:
    """Returns the order of the chunks and, for the rows in that order, who uses which slots.

    First the rows that run as bags, then the runs of equal slots, last the base rows. A weight of
    zero counts as no adapter.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, chunk in enumerate(chunks):
        slots = tuple(adapter.slot for adapter in _in_use(chunk))
        groups.setdefault(slots, []).append(index)
    base = groups.pop((), [])
    bags: list[int] = []
    runs: list[list[int]] = []
    for members in groups.values():
        rows = sum(len(chunks[index].token_ids) for index in members)
        if rows < MIN_GEMM_ROWS:
            bags += members
        else:
            runs.append(members)
    order = [*bags, *(index for members in runs for index in members), *base]
    plan = LoraStep(
        bags=_plan_bags([chunks[index] for index in bags], device) if bags else None,
        runs=tuple(_plan_runs(chunks, bags, runs, device)),
    )
    return order, plan


def _in_use(chunk: SequenceChunk) -> list[SlotWeight]:
    return [adapter for adapter in chunk.adapters if adapter.weight != 0]


def _plan_bags(chunks: list[SequenceChunk], device: torch.device) -> LoraBags:
    rows = [_in_use(chunk) for chunk in chunks for _ in chunk.token_ids]
    sizes = np.array([len(adapters) for adapters in rows])
    slots = np.array([adapter.slot for adapters in rows for adapter in adapters])
    weights = np.array([adapter.weight for adapters in rows for adapter in adapters], np.float32)
    return LoraBags(
        stop=len(rows),
        slots=torch.from_numpy(slots).to(device),
        slot_ids=np.unique(slots),
        first_pair=torch.from_numpy(np.concatenate(([0], sizes.cumsum()))).to(device),
        pair_rows=None
        if (sizes == 1).all()
        else torch.from_numpy(np.arange(len(rows)).repeat(sizes)).to(device),
        weights=_unless_one(weights, device, (1, -1, 1)),
    )


def _plan_runs(
    chunks: Sequence[SequenceChunk],
    bags: list[int],
    runs: list[list[int]],
    device: torch.device,
) -> list[LoraRun]:
    planned = []
    start = sum(len(chunks[index].token_ids) for index in bags)
    for members in runs:
        counts = [len(chunks[index].token_ids) for index in members]
        adapters = [_in_use(chunks[index]) for index in members]
        weights = np.array([[one.weight for one in each] for each in adapters], np.float32)
        planned.append(
            LoraRun(
                start=start,
                stop=start + sum(counts),
                slots=tuple(one.slot for one in adapters[0]),
                weights=tuple(
                    _unless_one(column.repeat(counts), device, (-1, 1)) for column in weights.T
                ),
            )
        )
        start += sum(counts)
    return planned


def _unless_one(weights: np.ndarray, device: torch.device, shape: tuple[int, ...]) -> Tensor | None:
    if (weights == 1).all():
        return None
    return torch.from_numpy(weights).to(device).view(shape)
