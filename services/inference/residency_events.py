"""What came into the slots and left them, kept until the store has counted it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from services.inference.engine.adapter_slots import Eviction
from services.inference.engine.fetched_adapter import FinishedLoad

_MOST_KEPT = 4096
"""Of each kind while the store is away; then the oldest go uncounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidencyBatch:
    """What one report tells, the same each time it is sent."""

    sequence: int
    """Grows by one from batch to batch."""
    loads: tuple[FinishedLoad, ...]
    evictions: tuple[Eviction, ...]
    num_slot_waits: int


class ResidencyEvents:
    """Gives one batch until it was counted; what happens meanwhile goes into the next."""

    def __init__(self) -> None:
        self._loads: deque[FinishedLoad] = deque(maxlen=_MOST_KEPT)
        self._evictions: deque[Eviction] = deque(maxlen=_MOST_KEPT)
        self._num_slot_waits = 0
        self._batch: ResidencyBatch | None = None
        self._sequence = 0

    def add(self, loads: Sequence[FinishedLoad], evictions: Sequence[Eviction]) -> None:
        """Keeps what has happened."""
        self._loads += loads
        self._evictions += evictions

    def take(self, num_slot_waits: int) -> ResidencyBatch:
        """The batch to send now. `num_slot_waits`: all waits since the start."""
        if self._batch is None:
            self._sequence += 1
            self._batch = ResidencyBatch(
                sequence=self._sequence,
                loads=tuple(self._loads),
                evictions=tuple(self._evictions),
                num_slot_waits=num_slot_waits - self._num_slot_waits,
            )
            self._num_slot_waits = num_slot_waits
            self._loads.clear()
            self._evictions.clear()
        return self._batch

    def mark_counted(self) -> None:
        """Says that the batch was answered."""
        self._batch = None
