"""Whether a concurrent history could have happened one operation after the other.

The search of Wing and Gong ("Testing and Verifying Concurrent Objects", 1993) with Lowe's memory of
what was tried ("Testing for linearizability", 2016): an operation may take effect at any moment
between its call and its return, and some order of such moments has to explain every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

State = TypeVar("State", bound=Hashable)
Model = Callable[[State, Any], tuple[State, Any]]
"""(state, call) -> (state afterwards, answer)."""


@dataclass(frozen=True)
class Operation:
    """One call and its answer. Moments are positions in the history, each used once."""

    call: Any
    answer: Any
    called: int
    returned: int | None
    """None: no answer came. It took effect once after `called`, or never."""


class Recorder:
    """Notes calls and returns in the order in which they happen in this process."""

    def __init__(self) -> None:
        self._moment = 0
        self.operations: list[Operation] = []

    def now(self) -> int:
        """A moment later than every one before."""
        self._moment += 1
        return self._moment

    def note(self, call: Any, called: int, answer: Any) -> None:
        """Notes an operation whose answer has just come."""
        self.operations.append(Operation(call, answer, called, self.now()))


def linearization(
    history: Iterable[Operation], initial: State, model: Model[State]
) -> list[Operation] | None:
    """An order that explains the history, or None when there is none.

    Returns only operations that took effect; one without an answer may be left out.
    """
    operations = sorted(history, key=lambda operation: operation.called)
    answered = sum(1 << i for i, each in enumerate(operations) if each.returned is not None)
    tried: set[tuple[int, State]] = set()
    # (operations done, state, the last one, what came before)
    pending: list[tuple[int, State, tuple[Any, ...]]] = [(0, initial, ())]
    while pending:
        done, state, order = pending.pop()
        if done & answered == answered:
            return _unwound(order)
        if (done, state) in tried:
            continue
        tried.add((done, state))
        for index in _next(operations, done):
            operation = operations[index]
            after, answer = model(state, operation.call)
            if operation.returned is None or answer == operation.answer:
                pending.append((done | 1 << index, after, (order, operation)))
    return None


def _next(operations: Sequence[Operation], done: int) -> list[int]:
    """What may take effect next: nothing that is still to come had returned before its call."""
    found: list[int] = []
    deadline: int | None = None
    for index, operation in enumerate(operations):
        if done >> index & 1:
            continue
        if deadline is not None and operation.called > deadline:
            break
        found.append(index)
        if operation.returned is not None and (deadline is None or operation.returned < deadline):
            deadline = operation.returned
    return found


def _unwound(order: tuple[Any, ...]) -> list[Operation]:
    operations = []
    while order:
        order, operation = order
        operations.append(operation)
    return operations[::-1]
