"""How many prompt tokens of each sequence run in a step. Pure.

A prompt of an interactive request comes first. In a step without one, the prompts of the lower
classes share a few tokens, so that a step is never long when an interactive request arrives in it;
in a step with one they wait, and so do the lower classes' decoding rows: on a processor that is
busy with a prompt every row more takes its own time, so leaving rows out costs nothing but
their place. Who has a turn (aging.py) does not wait.

Among interactive requests the prompt of the tenant with the fewest sequences in the step comes
first, and alone: a tenant that fills the node does not slow down the first token of one that asks
now and then. What waits for that waits one step: two steps in a row never leave the same out. And
the prompts of a tenant with more than one sequence in the step share a bounded number of tokens,
so that no step is long when another tenant's request arrives in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from services.inference.engine.sequence import Priority, Sequence


class PrefillBudget:
    """The prompt tokens a step has room for."""

    def __init__(
        self,
        num_tokens: int,
        num_lower_tokens: int,
        num_shared_tokens: int,
        running: Iterable[Sequence],
        *,
        may_defer: bool = True,
    ) -> None:
        """`num_lower_tokens`: most that are of the lower classes. `num_shared_tokens`: most of one
        tenant's interactive prompts, where it has other sequences. `running`: all of the step.

        `may_defer`: whether interactive requests of busy tenants may wait for those of others.
        """
        self._num_tokens = num_tokens
        self._num_lower_tokens = num_lower_tokens
        self._num_shared_tokens = num_shared_tokens
        self._num_taken: Counter[str | None] = Counter()
        interactive = [each for each in running if each.priority is Priority.INTERACTIVE]
        asking = {each.tenant_id for each in interactive if each.is_prefilling}
        self._num_sequences = Counter(each.tenant_id for each in interactive)
        self._is_urgent = bool(asking)
        self._most_sequences = (
            min(self._num_sequences[tenant_id] for tenant_id in asking)
            if asking and may_defer
            else None
        )
        self.has_deferred = False
        """Whether an interactive sequence was left out for a less busy tenant's."""

    def has_place(self, sequence: Sequence) -> bool:
        """Whether a sequence may run in this step at all."""
        if not self._is_urgent or sequence.has_turn:
            return True
        if sequence.priority is not Priority.INTERACTIVE:
            return False
        is_busy = (
            self._most_sequences is not None
            and self._num_sequences[sequence.tenant_id] > self._most_sequences
        )
        self.has_deferred |= is_busy
        return not is_busy

    def take(self, sequence: Sequence, room: int) -> int:
        """Takes the next tokens of its prompt, at most `room`; 0 when it has to wait."""
        if not self.has_place(sequence):
            return 0
        count = min(self._num_tokens, room, sequence.num_uniform_tokens)
        if sequence.priority is not Priority.INTERACTIVE:
            count = min(count, self._num_lower_tokens)
            self._num_lower_tokens -= count
        elif self._num_sequences[tenant_id := sequence.tenant_id] > 1:
            count = min(count, self._num_shared_tokens - self._num_taken[tenant_id])
            self._num_taken[tenant_id] += count
        self._num_tokens -= count
        return count
