"""What a back end is told of how to choose the next token of a row, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSampling:
    """The settings of one row.

    Order of operations: log probabilities are read from the untouched row; then repetition penalty
    (CTRL, arXiv 1909.05858), presence and frequency penalties; then only the tokens of the mask
    take part in temperature, top-k, top-p (nucleus, arXiv 1904.09751) and min-p (arXiv 2407.01082).
    """

    temperature: float = 0.0
    """0: the likeliest token."""
    top_k: int = 0
    """0: all tokens."""
    top_p: float = 1.0
    min_p: float = 0.0
    draw: float = 0.0
    """A random number in [0, 1), unused at temperature 0."""
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalised: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None
    """Tokens to penalise, each once, and how often each stands in the output."""
    num_logprobs: int | None = None
    """Likeliest tokens to tell of; None: no log probabilities at all."""
    mask: NDArray[np.uint32] | None = None
    """Tokens that may be chosen: bit i % 32 of word i // 32, a word for every 32 tokens of the
    vocabulary. None: all."""


class ChosenToken(NamedTuple):
    """A token; with its natural-log probability and the likeliest tokens, best first, if wanted."""

    token_id: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]
