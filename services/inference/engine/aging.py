"""Turns for sequences of the lower classes that better ones would starve. Pure.

Of those that no step has served for `aging_s`, the one that waits longest gets a turn: it goes
before everybody, takes the seat, slots and blocks it needs, and runs in every step until it has
`TURN_TOKENS` more tokens or ends. Then nobody has a turn for `PAUSE` times as long as it was
served, so that turns take one seat for a quarter of the time at most.

So under any load of better classes the one that waits longest is given what it needs at the latest
`aging_s` after it was last served, the n-th n - 1 turns and their pauses later; each turn adds
tokens to its output, so each ends after a bounded number of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.inference.engine.sequence import Priority, Sequence, SequenceStatus

TURN_TOKENS = 32
PAUSE = 3


class Turns:
    """Who has a turn; at most one sequence."""

    def __init__(self, aging_s: float) -> None:
        self._aging_s = aging_s
        self._current: Sequence | None = None
        self._num_tokens_at_end = 0
        self._served_since_s: float | None = None
        self._next_s = 0.0

    def update(self, sequences: Iterable[Sequence], now_s: float) -> bool:
        """Ends a turn and gives the next one; True when the order of sequences has changed.

        `sequences`: all that wait or are seated.
        """
        has_ended = self._current is not None and self._is_over(self._current)
        if has_ended:
            self._end(now_s)
        if self._current is not None or now_s < self._next_s:
            return has_ended
        overdue = (
            each
            for each in sequences
            if each.priority is not Priority.INTERACTIVE
            and now_s - each.unserved_since_s >= self._aging_s
        )
        self._current = min(
            overdue, key=lambda each: (each.unserved_since_s, each.sequence_id), default=None
        )
        if self._current is None:
            return has_ended
        self._current.has_turn = True
        self._num_tokens_at_end = self._current.num_output_tokens + TURN_TOKENS
        return True

    def note_served(self, sequence: Sequence, now_s: float) -> None:
        """A step has tokens of this sequence."""
        sequence.unserved_since_s = now_s
        if sequence is self._current and self._served_since_s is None:
            self._served_since_s = now_s

    def _is_over(self, sequence: Sequence) -> bool:
        is_finished = sequence.status is SequenceStatus.FINISHED
        return is_finished or sequence.num_output_tokens >= self._num_tokens_at_end

    def _end(self, now_s: float) -> None:
        assert self._current is not None
        if self._served_since_s is not None:
            self._next_s = now_s + PAUSE * (now_s - self._served_since_s)
        self._current.has_turn = False
        self._current = self._served_since_s = None
