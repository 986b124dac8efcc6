"""The table of adapter slots: which digest is where, who uses it, which one may go.

A slot is EMPTY, LOADING (given to a digest whose weights are on their way) or RESIDENT. A slot
that is referenced or loading is never evicted; among the others the least recently used goes
first. The table decides; the engine moves the weights.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


class SlotState(enum.Enum):
    """What a slot holds."""

    EMPTY = enum.auto()
    LOADING = enum.auto()
    RESIDENT = enum.auto()


@dataclass(slots=True)
class Slot:
    """One slot of the back end."""

    index: int
    digest: str | None = None
    state: SlotState = SlotState.EMPTY
    num_references: int = 0
    last_used_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A slot newly given to a digest: what it held goes, what it is to hold has to be loaded."""

    digest: str
    slot: int
    evicted_digest: str | None


@dataclass(frozen=True, slots=True)
class Acquisition:
    """References taken on all digests of one sequence, in their order."""

    slots: tuple[int, ...]
    claims: tuple[Claim, ...]


class AdapterSlots:
    """Reference-counted slots with LRU eviction of the unreferenced."""

    def __init__(self, num_slots: int) -> None:
        self._slots = [Slot(index) for index in range(num_slots)]
        self._by_digest: dict[str, Slot] = {}
        self.num_changes = 0
        """Grows with every change of a slot."""

    @property
    def slots(self) -> Sequence[Slot]:
        """All slots, for reading."""
        return self._slots

    @property
    def num_references(self) -> int:
        """References on all slots together."""
        return sum(slot.num_references for slot in self._slots)

    def find(self, digest: str) -> Slot | None:
        """The slot given to a digest, loading or resident."""
        return self._by_digest.get(digest)

    def is_resident(self, digest: str) -> bool:
        """Whether a digest's weights are in a slot."""
        slot = self._by_digest.get(digest)
        return slot is not None and slot.state is SlotState.RESIDENT

    def acquire(self, digests: Sequence[str], now_s: float) -> Acquisition | None:
        """Takes one reference on every digest, claiming slots for those that have none.

        All or nothing: None when not enough slots are empty or unreferenced. A digest that is
        loading already is not claimed again, so every digest is loaded once (single flight).
        """
        missing = [digest for digest in digests if digest not in self._by_digest]
        claimable = self._claimable(exclude=digests)
        if len(missing) > len(claimable):
            return None
        claims = []
        for digest, slot in zip(missing, claimable, strict=False):
            evicted = slot.digest
            self._empty(slot)
            slot.digest, slot.state = digest, SlotState.LOADING
            self._by_digest[digest] = slot
            claims.append(Claim(digest, slot.index, evicted))
        self.num_changes += 1
        for digest in digests:
            slot = self._by_digest[digest]
            slot.num_references += 1
            slot.last_used_s = now_s
        indices = tuple(self._by_digest[digest].index for digest in digests)
        return Acquisition(indices, tuple(claims))

    def release(self, digests: Iterable[str], now_s: float) -> None:
        """Gives back one reference on every digest. Raises ValueError when there is none."""
        self.num_changes += 1
        for digest in digests:
            slot = self._by_digest.get(digest)
            if slot is None or slot.num_references == 0:
                raise ValueError("an adapter slot was released twice")
            slot.num_references -= 1
            slot.last_used_s = now_s

    def mark_resident(self, digest: str) -> None:
        """Says that the weights of a loading digest are in its slot."""
        self._by_digest[digest].state = SlotState.RESIDENT
        self.num_changes += 1

    def discard(self, digest: str) -> int | None:
        """Empties the slot of an unreferenced digest and returns its index.

        Returns None, changing nothing, when the digest has no slot or is referenced.
        """
        slot = self._by_digest.get(digest)
        if slot is None or slot.num_references:
            return None
        self._empty(slot)
        return slot.index

    def num_missing(self, digests: Sequence[str]) -> int:
        """Slots the digests would still need beyond those they have and those that may be taken."""
        missing = sum(digest not in self._by_digest for digest in digests)
        return max(0, missing - len(self._claimable(exclude=digests)))

    def choose_draining(self, digests: Collection[str], count: int) -> frozenset[str]:
        """Digests to take no new references on, so that `count` slots come free for `digests`.

        Those with the fewest references are the soonest free; among equals the least recently
        used.
        """
        candidates = [
            slot
            for slot in self._slots
            if slot.digest is not None and slot.num_references and slot.digest not in digests
        ]
        candidates.sort(key=lambda slot: (slot.num_references, slot.last_used_s, slot.index))
        return frozenset(slot.digest for slot in candidates[:count] if slot.digest is not None)

    def _claimable(self, exclude: Collection[str]) -> list[Slot]:
        free = [
            slot
            for slot in self._slots
            if slot.num_references == 0
            and slot.state is not SlotState.LOADING
            and slot.digest not in exclude
        ]
        free.sort(key=lambda slot: (slot.digest is not None, slot.last_used_s, slot.index))
        return free

    def _empty(self, slot: Slot) -> None:
        self.num_changes += 1
        if slot.digest is not None:
            del self._by_digest[slot.digest]
        slot.digest, slot.state = None, SlotState.EMPTY
