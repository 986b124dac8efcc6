"""How many prompt tokens of each sequence run in a step. Pure.

A prompt of an interactive request comes first. In a step without one, the prompts of the lower
classes share a few tokens, so that a step is never long when an interactive request arrives in it;
in a step with one they wait, and so do the lower classes' decoding rows: on a processor that is
busy with a prompt every row more takes its own time, so leaving rows out costs nothing but
their place. Who has a turn (aging.py) does not wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.inference.engine.sequence import Priority, Sequence


class PrefillBudget:
    """The prompt tokens a step has room for."""

    def __init__(self, num_tokens: int, num_lower_tokens: int, running: Iterable[Sequence]) -> None:
        """`num_lower_tokens`: most that are of the lower classes. `running`: all of the step."""
        self._num_tokens = num_tokens
        self._num_lower_tokens = num_lower_tokens
        self._is_urgent = any(
            each.is_prefilling and each.priority is Priority.INTERACTIVE for each in running
        )

    def has_place(self, sequence: Sequence) -> bool:
        """Whether a sequence may run in this step at all."""
        return not self._is_urgent or sequence.precedence <= Priority.INTERACTIVE

    def take(self, sequence: Sequence, room: int) -> int:
        """Takes the next tokens of its prompt, at most `room`; 0 when it has to wait."""
        if not self.has_place(sequence):
            return 0
        count = min(self._num_tokens, room, sequence.num_uncached_tokens)
        if sequence.priority is not Priority.INTERACTIVE:
            count = min(count, self._num_lower_tokens)
            self._num_lower_tokens -= count
        self._num_tokens -= count
        return count
