"""Proof that a loaded adapter does what it should: the canary prompt's logits with it.

They must differ from the base model's and, where they were measured at registration, match what
was measured then. That was on the native core with keys and values in half precision, which gives
the same bits everywhere; what computes otherwise is some way off, and `Backend.canary_tolerance`
says how far it may be: the root mean square of the differences over the reference's tokens, both
sides centred, as a share of the reference's spread. Measured on SmolLM2-135M: 0 on the native core,
0.07 to 0.16 with keys and values in 8 bits or on torch, 0.16 to 0.4 for another random adapter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgelora.errors import AdapterRejectedError, InternalError
from services.inference.backends.base import Backend, SequenceChunk, SlotWeight
from services.inference.backends.numpy_sampling import Logits, finite_rows
from services.inference.engine.fetched_adapter import CanaryReference

_NOISE = 1e-5
"""Differences up to this share of the largest logit are rounding, not an effect (float32)."""


class EffectCheck:
    """Runs the canary in a sequence of its own, whose KV blocks nobody else uses."""

    def __init__(
        self, token_ids: Sequence[int], block_table: list[int], max_step_tokens: int
    ) -> None:
        """`max_step_tokens`: most tokens the back end takes in one step."""
        self._token_ids = np.asarray(token_ids, dtype=np.int32)
        self._block_table = block_table
        self._max_step_tokens = max_step_tokens
        self._base: Logits | None = None
        """The base model's answer, which is always the same."""

    @property
    def num_tokens(self) -> int:
        """Of the canary."""
        return len(self._token_ids)

    def run(self, backend: Backend, slot: int, reference: CanaryReference | None = None) -> None:
        """Raises AdapterRejectedError when a slot's adapter changes nothing, overflows or is not
        what was measured."""
        if self._base is None:
            base = self._answer(backend, ())
            if not finite_rows(base).all():
                raise InternalError("the model's output was not a number")
            self._base = base
        adapted = self._answer(backend, (SlotWeight(slot, 1.0),))
        self.judge(adapted, reference, backend.canary_tolerance)

    def chunk(self, slot: int, num_tokens: int) -> SequenceChunk | None:
        """The canary as rows of a step that has `num_tokens` already.

        None when there is no room, or nothing to compare with yet.
        """
        if self._base is None or num_tokens + len(self._token_ids) > self._max_step_tokens:
            return None
        return self._chunk(0, len(self._token_ids), (SlotWeight(slot, 1.0),))

    def judge(self, adapted: Logits, reference: CanaryReference | None, tolerance: float) -> None:
        """See `run`; `adapted` is the row of a `chunk`, after a `run`."""
        assert self._base is not None
        if not finite_rows(adapted).all():
            raise AdapterRejectedError(
                "the adapter makes the model overflow: train it with smaller weights",
                field="weights",
            )
        if np.abs(adapted - self._base).max() <= _NOISE * np.abs(self._base).max():
            raise AdapterRejectedError(
                "the adapter changes nothing in the model's answers: check that it was trained",
                field="weights",
            )
        if reference is not None and _distance(adapted[0], reference) > tolerance:
            raise AdapterRejectedError(
                "the adapter does not answer as it did when it was registered: register it again",
                field="weights",
            )

    def _answer(self, backend: Backend, adapters: tuple[SlotWeight, ...]) -> Logits:
        for start in range(0, len(self._token_ids), self._max_step_tokens):
            end = min(start + self._max_step_tokens, len(self._token_ids))
            logits = backend.forward([self._chunk(start, end, adapters)])
        return logits

    def _chunk(self, start: int, end: int, adapters: tuple[SlotWeight, ...]) -> SequenceChunk:
        return SequenceChunk(
            token_ids=self._token_ids[start:end],
            start_position=start,
            block_table=self._block_table,
            adapters=adapters,
            needs_logits=end == len(self._token_ids),
        )


def _distance(logits: Logits, reference: CanaryReference) -> float:
    """Root mean square of the differences, over the reference's standard deviation."""
    measured = reference.logits - reference.logits.mean()
    found = logits[reference.token_ids]
    found = found - found.mean()
    spread = max(float(measured.std()), _NOISE)
    return float(np.sqrt(np.mean((found - measured) ** 2))) / spread
