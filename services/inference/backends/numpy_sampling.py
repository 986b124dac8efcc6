"""The reference of sampling in numpy, for back ends without one of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.inference.backends.sampling import ChosenToken, RowSampling

Logits = NDArray[np.float32]

_GROUP = 64
_SUM_GROUP = 256


def finite_rows(logits: Logits) -> NDArray[np.bool_]:
    """Which rows hold neither NaN nor an infinity and do not overflow when summed.

    `logits` has shape [rows, vocab_size]; the result has shape [rows].
    """
    with np.errstate(over="ignore", invalid="ignore"):
        finite: NDArray[np.bool_] = np.isfinite(logits.sum(axis=1))
    return finite


def top_indices(row: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """Indices of the `count` largest values of a row, best first; ties by index.

    The count-th largest maximum of groups of 64 is a lower bound of the count-th largest value,
    so only what reaches it has to be sorted.
    """
    count = min(count, len(row))
    num_groups = len(row) // _GROUP
    candidates = np.arange(len(row))
    if num_groups > count:
        maxima = row[: num_groups * _GROUP].reshape(num_groups, _GROUP).max(axis=1)
        bound = np.partition(maxima, num_groups - count)[num_groups - count]
        candidates = np.flatnonzero(row >= bound)
    order = np.argsort(-row[candidates], kind="stable")[:count]
    return candidates[order]


def sample_rows(logits: Logits, rows: Sequence[RowSampling]) -> list[ChosenToken | None]:
    """Chooses a token for each row; None for one that is not finite or has an empty mask. See
    Backend.sample."""
    return [
        _sample(row, sampling) if is_finite else None
        for row, sampling, is_finite in zip(logits, rows, finite_rows(logits), strict=True)
    ]


def _sample(row: Logits, sampling: RowSampling) -> ChosenToken | None:
    adjusted = row if sampling.penalised is None else _penalised(row, sampling, *sampling.penalised)
    allowed = None if sampling.mask is None else _allowed(sampling.mask, len(row))
    if allowed is not None:
        if len(allowed) == 0:
            return None
        adjusted = adjusted[allowed]
    is_greedy = sampling.temperature == 0
    token_id = int(adjusted.argmax()) if is_greedy else _draw(adjusted, sampling)
    if allowed is not None:
        token_id = int(allowed[token_id])
    if sampling.num_logprobs is None:
        return ChosenToken(token_id, None, ())
    best = row.max()
    log_total = float(best) + float(np.log(np.exp(row - best).sum(dtype=np.float64)))
    top = top_indices(row, sampling.num_logprobs)
    return ChosenToken(
        token_id,
        float(row[token_id]) - log_total,
        tuple((int(index), float(row[index]) - log_total) for index in top),
    )


def _allowed(mask: NDArray[np.uint32], num_tokens: int) -> NDArray[np.intp]:
    """Ids of the tokens of a mask."""
    bits = np.unpackbits(mask.astype("<u4").view(np.uint8), bitorder="little")
    return np.flatnonzero(bits[:num_tokens])


def _penalised(
    row: Logits, sampling: RowSampling, ids: NDArray[np.int32], counts: NDArray[np.int32]
) -> Logits:
    adjusted = row.copy()
    values, penalty = adjusted[ids], np.float32(sampling.repetition_penalty)
    values = np.where(values > 0, values / penalty, values * penalty)
    values -= np.float32(sampling.presence_penalty) * (counts > 0)
    values -= np.float32(sampling.frequency_penalty) * counts.astype(np.float32)
    adjusted[ids] = values
    return adjusted


def _draw(row: Logits, sampling: RowSampling) -> int:
    ids: NDArray[np.intp] | None = None
    values = row
    if 0 < sampling.top_k < len(row):
        ids = top_indices(row, sampling.top_k)
        values = row[ids]
    # The best weight is 1 and the others are below it, so nothing overflows.
    weights = np.exp((values - values.max()) / np.float32(max(sampling.temperature, 1e-6)))
    keep: NDArray[np.intp] | None = None
    if sampling.top_p < 1.0:
        keep = _nucleus(weights, sampling.top_p)
    if sampling.min_p > 0.0:
        # The best token has weight 1, so min_p is the bound itself.
        likely = np.flatnonzero(weights >= sampling.min_p)
        keep = likely if keep is None else keep[weights[keep] >= sampling.min_p]
    if keep is not None:
        ids = keep if ids is None else ids[keep]
        weights = weights[keep]
    position = _position_at(weights, sampling.draw)
    return position if ids is None else int(ids[position])


def _position_at(weights: Logits, share: float) -> int:
    """Index at which the running sum first exceeds a share (0 to 1) of the total.

    Groups are summed first, so that only one of them has to be gone through.
    """
    starts = np.arange(0, len(weights), _SUM_GROUP)
    group, before = _first_beyond(np.add.reduceat(weights, starts), share)
    inside = weights[starts[group] : starts[group] + _SUM_GROUP]
    position, _ = _first_beyond(inside, before)
    return int(starts[group]) + position


def _first_beyond(weights: Logits, share: float) -> tuple[int, float]:
    """The index, and how far into it the share reaches, as a share of its own weight."""
    sums = np.cumsum(weights, dtype=np.float64)
    # Never beyond the end, so that no token of weight 0 is ever chosen.
    target = min(share * sums[-1], np.nextafter(sums[-1], 0.0))
    index = int(np.searchsorted(sums, target, side="right"))
    before = sums[index - 1] if index else 0.0
    return index, float((target - before) / (sums[index] - before))


def _nucleus(weights: Logits, top_p: float) -> NDArray[np.intp]:
    """Indices of the smallest set of likeliest tokens whose share reaches top_p, best first.

    All tokens below (1 - top_p) * total / n together weigh less than what may be left out, so
    they can not belong to it and are not sorted.
    """
    total = float(weights.sum(dtype=np.float64))
    candidates = np.flatnonzero(weights >= (1.0 - top_p) * total / len(weights))
    order = candidates[np.argsort(-weights[candidates], kind="stable")]
    cumulative = np.cumsum(weights[order], dtype=np.float64)
    reached = int(np.searchsorted(cumulative, top_p * total))
    return order[: reached + 1]
