"""What one sequence's sampling remembers: its generator, the tokens seen and its constraint.

The back end chooses; the generator belongs to the sequence, so the result depends on nothing but
the request.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.inference.backends.sampling import ChosenToken, RowSampling
from services.inference.constraints.matcher import TokenConstraint
from services.inference.engine.sequence import SampledToken, SamplingParams, TokenLogprob

_MAX_TOP_K = 2**31 - 1
_LEAST = 1e-6
"""Of a share or a factor: less is 0 in single precision, or takes logits out of its range."""


class SequenceSampler:
    """Tells the back end how to choose each next token of one sequence."""

    def __init__(
        self,
        params: SamplingParams,
        prompt: Sequence[int],
        num_top_logprobs: int | None,
        constraint: TokenConstraint | None = None,
    ) -> None:
        self._params = params
        self._constraint = constraint
        self._num_top_logprobs = num_top_logprobs
        self._random = np.random.default_rng(params.seed) if params.temperature > 0 else None
        # Only the repetition penalty counts the prompt.
        seen = prompt if params.repetition_penalty != 1.0 else ()
        self._penalised = PenalisedTokens(seen) if params.has_penalties else None
        # Most sequences draw nothing, are penalised for nothing and may say anything: one row for
        # all their tokens.
        is_constant = self._random is None and self._penalised is None and constraint is None
        self._constant = self._make_row(0.0) if is_constant else None

    def next_row(self) -> RowSampling:
        """Settings of the row at hand; draws a random number where one is needed.

        Raises InvalidRequestError when the constraint turns out to be too complex.
        """
        if self._constant is not None:
            return self._constant
        return self._make_row(0.0 if self._random is None else self._random.random())

    def note(self, chosen: ChosenToken) -> SampledToken:
        """Remembers what was chosen."""
        token_id, logprob, top = chosen
        if self._penalised is not None:
            self._penalised.add(token_id)
        if logprob is None:
            return SampledToken(token_id)
        return SampledToken(token_id, TokenLogprob(token_id, logprob, top))

    def _make_row(self, draw: float) -> RowSampling:
        params = self._params
        return RowSampling(
            temperature=params.temperature,
            top_k=min(params.top_k or 0, _MAX_TOP_K),
            top_p=max(params.top_p, _LEAST),
            min_p=params.min_p,
            draw=draw,
            repetition_penalty=max(params.repetition_penalty, _LEAST),
            presence_penalty=params.presence_penalty,
            frequency_penalty=params.frequency_penalty,
            penalised=None if self._penalised is None else self._penalised.arrays(),
            num_logprobs=self._num_top_logprobs,
            mask=None if self._constraint is None else self._constraint.mask(),
        )


class PenalisedTokens:
    """The tokens of a sequence, each once, and how often each stands in the output."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self._positions = {token_id: index for index, token_id in enumerate(dict.fromkeys(prompt))}
        self._ids = np.fromiter(self._positions, dtype=np.int32)
        self._counts = np.zeros(len(self._ids), dtype=np.int32)

    def add(self, token_id: int) -> None:
        """Counts a token of the output."""
        position = self._positions.setdefault(token_id, len(self._positions))
        if position == len(self._ids):
            room = np.zeros(max(16, position), dtype=np.int32)
            self._ids = np.concatenate([self._ids, room])
            self._counts = np.concatenate([self._counts, room])
        self._ids[position] = token_id
        self._counts[position] += 1

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Token ids and counts, valid until the next token."""
        count = len(self._positions)
        return self._ids[:count], self._counts[:count]
