"""Proves adapters that were written: their canary runs as rows of the running step.

A step of its own would cost the running sequences about as much as their next token. It has one
where nothing runs, or where the step has no room.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from edgelora.errors import AdapterRejectedError, EdgeLoraError, InternalError
from services.chassis.logs import get_logger
from services.inference.backends.base import Backend, SequenceChunk, UnfitAdapterError
from services.inference.backends.numpy_sampling import Logits
from services.inference.engine.adapter_loader import LoadOutcome
from services.inference.engine.effect_check import EffectCheck
from services.inference.engine.fetched_adapter import CanaryReference, FetchCost


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAdapter:
    """An adapter whose writing has ended."""

    digest: str
    slot: int
    reference: CanaryReference | None
    cost: FetchCost
    outcome: LoadOutcome


ProofDone = Callable[[WrittenAdapter, float, EdgeLoraError | None], None]
"""Told how a proof ended: the seconds it took, and why the adapter is refused, or None."""


class AdapterProofs:
    """Adapters that wait for their proof, in order. Belongs to the engine's thread."""

    def __init__(self, backend: Backend, check: EffectCheck, done: ProofDone) -> None:
        self._backend = backend
        self._check = check
        self._done = done
        self._waiting: deque[WrittenAdapter] = deque()
        self._started_s = 0.0

    @property
    def next_digest(self) -> str | None:
        """Whose proof comes next."""
        return self._waiting[0].digest if self._waiting else None

    def add(self, written: WrittenAdapter) -> None:
        """Has an adapter proven soon; one that could not be written is refused at once."""
        if written.outcome.error is None:
            self._waiting.append(written)
        else:
            self._end(written, 0.0, written.outcome.error)

    def run_alone(self) -> bool:
        """Proves the next one in a step of its own; False when there is none."""
        if not self._waiting:
            return False
        written = self._waiting.popleft()
        started_s = time.perf_counter()
        error: Exception | None = None
        try:
            self._check.run(self._backend, written.slot, written.reference)
        except Exception as failure:  # noqa: BLE001 - a bad adapter must not end the engine
            error = failure
        self._end(written, time.perf_counter() - started_s, error)
        return True

    def begin(self, num_tokens: int) -> SequenceChunk | None:
        """What to add to a step of `num_tokens` to prove the next one; `end` takes its logits.

        None when there is none, or when the step has no room: then it has been proven alone.
        """
        if not self._waiting:
            return None
        self._started_s = time.perf_counter()
        chunk = self._check.chunk(self._waiting[0].slot, num_tokens)
        if chunk is None:
            self.run_alone()
        return chunk

    def end(self, logits: Logits) -> None:
        """Takes the row of what `begin` gave, shape [1, vocab_size]."""
        written = self._waiting.popleft()
        error: Exception | None = None
        try:
            self._check.judge(logits, written.reference, self._backend.canary_tolerance)
        except EdgeLoraError as refusal:
            error = refusal
        self._end(written, time.perf_counter() - self._started_s, error)

    def _end(self, written: WrittenAdapter, prove_s: float, error: Exception | None) -> None:
        refusal: EdgeLoraError | None = None
        if isinstance(error, EdgeLoraError):
            refusal = error
        elif isinstance(error, UnfitAdapterError):
            refusal = AdapterRejectedError(str(error), field="weights")
        elif error is not None:
            kind = type(error).__name__
            get_logger().error("adapter_load_failed", digest=written.digest, error=kind)
            refusal = InternalError("the adapter could not be loaded")
        self._done(written, prove_s, refusal)
