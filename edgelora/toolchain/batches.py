"""Which examples share a training step, and at what learning rate."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Literal


def batches_by_length(
    lengths: Sequence[int], batch_tokens: int, order: random.Random
) -> list[list[int]]:
    """Groups examples of like length so that little is padded; returns lists of indices.

    A batch holds at most `batch_tokens` tokens, padding included, and at least one example. Ties
    and the order of the batches are drawn from `order`.
    """
    indices = list(range(len(lengths)))
    order.shuffle(indices)
    indices.sort(key=lambda index: lengths[index])
    batches: list[list[int]] = []
    for index in indices:
        # Sorted, so the newest example is the longest of its batch.
        if batches and (len(batches[-1]) + 1) * lengths[index] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    order.shuffle(batches)
    return batches


def learning_rate_share(
    step: int, steps: int, warmup_share: float, schedule: Literal["cosine", "linear"]
) -> float:
    """The share (0..1] of the peak rate in `step` of `steps`, counted from 0."""
    warmup = max(1, round(steps * warmup_share))
    if step < warmup:
        return (step + 1) / (warmup + 1)
    done = (step - warmup + 0.5) / max(1, steps - warmup)
    return 1 - done if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))
