"""What waits, and which texts the next step takes. Pure.

Classes go in their order. Within a class requests take turns, a text each, whoever was served
longest ago first, so that one of 64 texts does not hold up one of a single text; what has no room
any more waits for the next step, where it is first. Background and batch together take at most
`lower_step_tokens` of a step, so that an interactive text that comes meanwhile waits for a short
step, and the one of them that was unserved for `aging_s` and longest goes before everybody: each
gets a text into a step within bounded time under any load of better classes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from services.inference.encoder.encoding import Encoding
from services.inference.engine.sequence import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBudget:
    """How much one step may take."""

    max_step_tokens: int
    """At least as many as one text can have."""
    lower_step_tokens: int
    """Of background and batch together; their first text may have more."""
    aging_s: float


@dataclass(frozen=True, slots=True)
class ChosenText:
    """One text of a step."""

    encoding: Encoding
    index: int

    @property
    def num_tokens(self) -> int:
        """Of the text."""
        return len(self.encoding.texts[self.index])


class TextQueue:
    """All requests that have not ended."""

    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget
        self._by_id: dict[int, Encoding] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Encoding]:
        """In order of arrival."""
        return iter(self._by_id.values())

    def add(self, encoding: Encoding) -> None:
        """Takes one in."""
        encoding.unserved_since_s = encoding.arrived_s
        encoding.last_turn = self._turn  # behind everybody who waits already
        self._by_id[encoding.encoding_id] = encoding

    def find(self, encoding_id: int) -> Encoding | None:
        """One that has not ended, or None."""
        return self._by_id.get(encoding_id)

    def remove(self, encoding: Encoding) -> None:
        """Forgets one that has ended."""
        del self._by_id[encoding.encoding_id]

    def using(self, digest: str) -> list[Encoding]:
        """Those that name an adapter, in order of arrival."""
        return [each for each in self if digest in each.digests]

    def waiting_for_slots(self, now_s: float) -> list[Encoding]:
        """Those that hold no references on their adapters, who is first in line first."""
        waiting = [each for each in self if each.adapters and each.slots is None]
        return sorted(waiting, key=lambda each: self._precedence(each, now_s))

    def has_waited_long(self, encoding: Encoding, now_s: float) -> bool:
        """Whether nobody may be given what this one waits for any more."""
        return now_s - encoding.unserved_since_s >= self._budget.aging_s

    def choose(self, is_ready: Callable[[Encoding], bool], now_s: float) -> list[ChosenText]:
        """Takes the texts of the next step, of requests whose adapters are there."""
        ready = [each for each in self if not each.is_started and is_ready(each)]
        chosen: list[ChosenText] = []
        overdue = self._overdue(ready, now_s)
        if overdue is not None:
            chosen.append(self._take(overdue, now_s))
        turns = [_turn(each) for each in ready if not each.is_started]
        heapq.heapify(turns)
        room, lower_room = self._rooms(chosen)
        while turns:
            encoding = self._by_id[heapq.heappop(turns)[-1]]
            num_tokens = len(encoding.texts[encoding.num_started])
            is_lower = encoding.priority is not Priority.INTERACTIVE
            is_first = is_lower and lower_room == self._budget.lower_step_tokens
            if num_tokens > room or (is_lower and num_tokens > lower_room and not is_first):
                continue
            chosen.append(self._take(encoding, now_s))
            room -= num_tokens
            lower_room -= num_tokens if is_lower else 0
            if not encoding.is_started:
                heapq.heappush(turns, _turn(encoding))
        return chosen

    def _overdue(self, ready: list[Encoding], now_s: float) -> Encoding | None:
        lower = [
            each
            for each in ready
            if each.priority is not Priority.INTERACTIVE and self.has_waited_long(each, now_s)
        ]
        return min(lower, key=lambda each: each.unserved_since_s, default=None)

    def _rooms(self, chosen: list[ChosenText]) -> tuple[int, int]:
        """Tokens that are left of the step, and for the lower classes, which have `chosen`."""
        num_tokens = sum(each.num_tokens for each in chosen)
        budget = self._budget
        return budget.max_step_tokens - num_tokens, budget.lower_step_tokens - num_tokens

    def _take(self, encoding: Encoding, now_s: float) -> ChosenText:
        self._turn += 1
        encoding.last_turn = self._turn
        encoding.unserved_since_s = now_s
        encoding.num_started += 1
        return ChosenText(encoding, encoding.num_started - 1)

    def _precedence(self, encoding: Encoding, now_s: float) -> tuple[int, int]:
        if self.has_waited_long(encoding, now_s):
            return 0, encoding.encoding_id
        return encoding.priority, encoding.encoding_id


def _turn(encoding: Encoding) -> tuple[int, int, int]:
    return encoding.priority, encoding.last_turn, encoding.encoding_id
