"""With which strengths each token of a sequence runs, where they were changed on the way. Pure.

A token's keys and values depend on the strengths it ran with. Those that were there before a change
stay as they are; a sequence that lost its blocks computes every token again with its own.
"""

from __future__ import annotations

from bisect import bisect_right

Weights = tuple[float, ...]
"""One for each adapter of the sequence, in its order."""


class StrengthChanges:
    """The changes of one sequence, by the first token that each is for."""

    __slots__ = ("_starts", "_weights")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._weights: list[Weights] = []

    def __bool__(self) -> bool:
        return bool(self._starts)

    @property
    def first_start(self) -> int | None:
        """The first token that runs otherwise than the request asked; None without a change."""
        return self._starts[0] if self._starts else None

    def newest(self, initial: Weights) -> Weights:
        """What is in force now."""
        return self._weights[-1] if self._weights else initial

    def add(self, start: int, weights: Weights, initial: Weights) -> None:
        """Changes what is in force from a token on, whatever was to change behind it.

        That there is such a change means that what ran up to it has been lost since.
        """
        while self._starts and self._starts[-1] >= start:
            self._starts.pop()
            self._weights.pop()
        if weights != self.newest(initial):
            self._starts.append(start)
            self._weights.append(weights)

    def at(self, position: int, initial: Weights) -> Weights:
        """What a token runs with."""
        index = bisect_right(self._starts, position)
        return self._weights[index - 1] if index else initial

    def next_start(self, position: int) -> int | None:
        """The first change behind a token; None when there is none."""
        index = bisect_right(self._starts, position)
        return self._starts[index] if index < len(self._starts) else None
