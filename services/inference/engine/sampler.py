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

    @property
    def is_plain_greedy(self) -> bool:
        """Whether the largest logit is all that is asked for."""
        return (
            self._random is None
            and self._num_top_logprobs is None
            and not self._params.has_penalties
        )

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
        best = float(values.max())
        # float64: a temperature close to 0 must not overflow, and sums are to be exact enough.
        weights = np.exp((values.astype(np.float64) - best) / max(params.temperature, 1e-6))
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
        cumulative = np.cumsum(weights)
        position = int(np.searchsorted(cumulative, random.random() * cumulative[-1], side="right"))
        position = min(position, len(weights) - 1)
        return position if ids is None else int(ids[position])


def _nucleus(weights: NDArray[np.float64], top_p: float) -> NDArray[np.intp]:
    """Indices of the smallest set of likeliest tokens whose share reaches top_p, best first.

    All tokens below (1 - top_p) * total / n together weigh less than what may be left out, so
    they can not belong to it and are not sorted.
    """
    total = float(weights.sum())
    candidates = np.flatnonzero(weights >= (1.0 - top_p) * total / len(weights))
    order = candidates[np.argsort(-weights[candidates], kind="stable")]
    reached = int(np.searchsorted(np.cumsum(weights[order]), top_p * total))
    return order[: reached + 1]


def _logprob(row: Logits, token_id: int, num_top: int) -> TokenLogprob:
    values = row.astype(np.float64)
    best = values.max()
    log_total = float(best + np.log(np.exp(values - best).sum()))
    top = tuple(
        (int(index), float(values[index]) - log_total) for index in top_indices(row, num_top)
    )
    return TokenLogprob(token_id, float(values[token_id]) - log_total, top)
