"""Chooses the next token from a row of logits. numpy only; one row never influences another.

Order of operations: log probabilities are read from the untouched row; then repetition penalty
(CTRL, arXiv 1909.05858, over prompt and output), presence and frequency penalties (over output),
temperature, top-k, top-p (nucleus, arXiv 1904.09751) and min-p (arXiv 2407.01082).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.inference.engine.sequence import SampledToken, SamplingParams, TokenLogprob

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


def sample_rows(logits: Logits, samplers: Sequence[SequenceSampler]) -> list[SampledToken | None]:
    """Chooses a token for each row of a step; None for a row that is not finite.

    `logits` has shape [number of samplers, vocab_size] and stays as it is.
    """
    return [
        sampler.sample(row) if is_finite else None
        for sampler, row, is_finite in zip(samplers, logits, finite_rows(logits), strict=True)
    ]


class SequenceSampler:
    """What one sequence's sampling remembers: its generator and the tokens seen.

    The generator belongs to the sequence, so the result depends on nothing but the request.
    """

    def __init__(
        self, params: SamplingParams, prompt: Sequence[int], num_top_logprobs: int | None
    ) -> None:
        self._params = params
        self._num_top_logprobs = num_top_logprobs
        self._random = np.random.default_rng(params.seed) if params.temperature > 0 else None
        self._seen = set(prompt) if params.repetition_penalty != 1.0 else set()
        self._counts: Counter[int] = Counter()

    def sample(self, row: Logits) -> SampledToken:
        """Chooses a token; `row` has shape [vocab_size], is finite and stays as it is."""
        adjusted = self._penalised(row) if self._params.has_penalties else row
        if self._random is None:
            token_id = int(adjusted.argmax())
        else:
            token_id = self._draw(adjusted, self._random)
        if self._params.has_penalties:
            self._counts[token_id] += 1
            if self._params.repetition_penalty != 1.0:
                self._seen.add(token_id)
        if self._num_top_logprobs is None:
            return SampledToken(token_id)
        return SampledToken(token_id, _logprob(row, token_id, self._num_top_logprobs))

    def _penalised(self, row: Logits) -> Logits:
        adjusted = row.copy()
        params = self._params
        if self._seen:
            ids = np.fromiter(self._seen, dtype=np.intp, count=len(self._seen))
            values, penalty = adjusted[ids], np.float32(params.repetition_penalty)
            adjusted[ids] = np.where(values > 0, values / penalty, values * penalty)
        if self._counts:
            ids = np.fromiter(self._counts.keys(), dtype=np.intp, count=len(self._counts))
            times = np.fromiter(self._counts.values(), dtype=np.float32, count=len(self._counts))
            adjusted[ids] -= np.float32(params.presence_penalty)
            adjusted[ids] -= np.float32(params.frequency_penalty) * times
        return adjusted

    def _draw(self, row: Logits, random: np.random.Generator) -> int:
        params = self._params
        ids: NDArray[np.intp] | None = None
        values = row
        if params.top_k is not None and params.top_k < len(row):
            ids = top_indices(row, params.top_k)
            values = row[ids]
        # The best weight is 1 and the others are below it, so nothing overflows.
        weights = np.exp((values - values.max()) / np.float32(max(params.temperature, 1e-6)))
        keep: NDArray[np.intp] | None = None
        if params.top_p < 1.0:
            keep = _nucleus(weights, params.top_p)
        if params.min_p > 0.0:
            # The best token has weight 1, so min_p is the bound itself.
            likely = np.flatnonzero(weights >= params.min_p)
            keep = likely if keep is None else keep[weights[keep] >= params.min_p]
        if keep is not None:
            ids = keep if ids is None else ids[keep]
            weights = weights[keep]
        position = _position_at(weights, random.random())
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


def _logprob(row: Logits, token_id: int, num_top: int) -> TokenLogprob:
    best = row.max()
    log_total = float(best) + float(np.log(np.exp(row - best).sum(dtype=np.float64)))
    top = tuple((int(index), float(row[index]) - log_total) for index in top_indices(row, num_top))
    return TokenLogprob(token_id, float(row[token_id]) - log_total, top)
