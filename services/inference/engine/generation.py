"""One generation inside the engine: its sequence, sampler, detokenizer and times."""

from __future__ import annotations

from services.inference.backends.sampling import ChosenToken
from services.inference.constraints.matcher import TokenConstraint
from services.inference.engine.detokenizer import Detokenizer
from services.inference.engine.events import Completed, TextDelta, Worked
from services.inference.engine.sampler import SequenceSampler
from services.inference.engine.sequence import FinishReason, Priority, SampledToken, Sequence
from services.inference.engine.token_bytes import TokenBytes

_DELTA_INTERVALS_S = {
    Priority.INTERACTIVE: 0.02,
    Priority.BACKGROUND: 0.1,
    Priority.BATCH: 0.1,
}
"""The first text goes out at once, what follows is collected for this long. A message of the lower
classes takes the event loop as long as one that somebody waits for."""
_UNTOLD_ENGINE_S = 0.25
"""Least work that is told without a delta, as of a long prompt."""


class Generation:
    """Turns the rows of logits of one sequence into deltas and an end. Owned by the engine."""

    def __init__(
        self,
        sequence: Sequence,
        *,
        ticket: object,
        token_bytes: TokenBytes,
        eos_token_ids: frozenset[int],
        arrived_s: float,
        constraint: TokenConstraint | None = None,
    ) -> None:
        """`ticket` is what the adapters are fetched with; it is passed on unread."""
        self.sequence = sequence
        self.ticket = ticket
        self.stop_string: str | None = None
        self.sampler = SequenceSampler(
            sequence.sampling, sequence.token_ids, sequence.num_top_logprobs, constraint
        )
        self._constraint = constraint
        self._detokenizer = Detokenizer(token_bytes, sequence.stop.stop_strings)
        stop_ids = sequence.stop.stop_token_ids
        self._end_token_ids = stop_ids if sequence.stop.ignore_eos else stop_ids | eos_token_ids
        self._arrived_s = arrived_s
        self._admitted_s: float | None = None
        self._load_started_s: float | None = None
        self._adapter_load_s = 0.0
        self._first_token_s: float | None = None
        self._last_delta_s: float | None = None
        self._told_engine_s = 0.0
        self._num_steps = 0
        self._num_step_sequences = 0

    @property
    def tenant_id(self) -> str | None:
        """Whose it is."""
        return self.sequence.tenant_id

    def begin_loading(self, now_s: float) -> None:
        """An adapter of this sequence is on its way."""
        if self._load_started_s is None:
            self._load_started_s = now_s

    def end_loading(self, now_s: float) -> None:
        """All its adapters are in their slots."""
        if self._load_started_s is not None:
            self._adapter_load_s += now_s - self._load_started_s
            self._load_started_s = None

    def note_step(self, now_s: float, num_sequences: int) -> bool:
        """Counts a step with so many sequences; True when it is this one's first."""
        self._num_steps += 1
        self._num_step_sequences += num_sequences
        is_first = self._admitted_s is None
        if is_first:
            self._admitted_s = now_s
        return is_first

    def accept(self, chosen: ChosenToken, now_s: float) -> FinishReason | None:
        """Adds the next token; returns why it is the last one.

        An output that its constraint lets nothing follow is complete, whatever else is wanted.
        Raises InvalidRequestError when the constraint turns out to be too complex.
        """
        token = self.sampler.note(chosen)
        sequence = self.sequence
        sequence.token_ids.append(token.token_id)
        if self._first_token_s is None:
            self._first_token_s = now_s
        reason: FinishReason | None = None
        if token.token_id in self._end_token_ids or self._is_complete(token):
            reason = FinishReason.STOP
        elif sequence.num_output_tokens >= sequence.stop.max_tokens:
            reason = FinishReason.LENGTH
        if reason is not None:
            self._detokenizer.finish()
            self.stop_string = self._detokenizer.stop_string
            # What was held back may hold the stop string that its last character completes.
            if self.stop_string is not None:
                reason = FinishReason.STOP
        return reason

    def _is_complete(self, token: SampledToken) -> bool:
        if self._detokenizer.push(token):
            return True
        return self._constraint is not None and self._constraint.accept(token.token_id)

    def take_delta(self, now_s: float, *, is_urgent: bool = False) -> TextDelta | None:
        """The text to send now, if there is some and its time has come."""
        interval_s = _DELTA_INTERVALS_S[self.sequence.priority]
        is_due = self._last_delta_s is None or now_s - self._last_delta_s >= interval_s
        if not (is_due or is_urgent):
            return None
        text, tokens = self._detokenizer.take()
        if not text and not tokens:
            return None
        self._last_delta_s = now_s
        self._told_engine_s = self.sequence.engine_s
        return TextDelta(text, tuple(tokens), self._told_engine_s)

    def take_work(self, *, is_last: bool = False) -> Worked | None:
        """What it has cost so far, if that is much more than was told; or any more, at the end."""
        untold_s = self.sequence.engine_s - self._told_engine_s
        if untold_s < _UNTOLD_ENGINE_S and not (is_last and untold_s > 0):
            return None
        self._told_engine_s = self.sequence.engine_s
        return Worked(self._told_engine_s)

    def completed(self, reason: FinishReason, now_s: float) -> Completed:
        """The summary of a generation that has ended."""
        start = self._arrived_s
        admitted_s = now_s if self._admitted_s is None else self._admitted_s
        first_token_s = now_s if self._first_token_s is None else self._first_token_s
        return Completed(
            finish_reason=reason,
            stop_string=self.stop_string,
            num_prompt_tokens=self.sequence.num_prompt_tokens,
            num_cached_prompt_tokens=self.sequence.num_cached_prompt_tokens,
            num_output_tokens=self.sequence.num_output_tokens,
            queue_s=max(0.0, admitted_s - start - self._adapter_load_s),
            adapter_load_s=self._adapter_load_s,
            first_token_s=first_token_s - start,
            total_s=now_s - start,
            mean_batch_size=self._num_step_sequences / max(1, self._num_steps),
            num_preemptions=self.sequence.num_preemptions,
            engine_s=self.sequence.engine_s,
        )
