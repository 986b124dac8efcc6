"""The table of adapter slots: which digest is where, who uses it, which one may go.

A slot is EMPTY, LOADING (given to a digest whose weights are on their way) or RESIDENT. A slot
that is referenced, or that is being written, is never evicted. Of the others, which are idle, the
least recently used goes first; those that waiting sequences want, and then those that are pinned,
go last. One that was loaded a short while ago and has served nobody yet stays as long as another
slot is busy and will come free. Slots also share a budget of bytes: one that loads is counted at
the most a slot can hold, a resident one at what it holds. The table decides; the engine moves the
weights.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


class SlotBudgetError(ValueError):
    """The budget holds not one adapter."""


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
    size_bytes: int = 0
    resident_since_s: float = 0.0
    num_uses: int = 0
    """References taken since it was given to its digest."""
    is_warm_up: bool = False
    """Given to its digest ahead of use."""
    form: str = ""
    """The serving form that is written into it."""
    is_written: bool = False
    """Whether its weights are there, or at least have come and are being written."""

    @property
    def is_idle(self) -> bool:
        """Whether it could be evicted."""
        is_abandoned = self.state is SlotState.LOADING and not self.is_written
        return not self.num_references and (is_abandoned or self.state is SlotState.RESIDENT)


@dataclass(frozen=True, slots=True)
class Claim:
    """A slot newly given to a digest, whose weights have to be loaded."""

    digest: str
    slot: int


@dataclass(frozen=True, slots=True)
class Eviction:
    """A digest that left its slot."""

    digest: str
    slot: int
    was_resident: bool
    was_wasted: bool
    """Loaded ahead of a use that never came."""


@dataclass(frozen=True, slots=True)
class Acquisition:
    """References taken on all digests of one sequence, in their order.

    Evictions come before the claims that need their slots or bytes.
    """

    slots: tuple[int, ...]
    claims: tuple[Claim, ...]
    evictions: tuple[Eviction, ...]


class AdapterSlots:
    """Reference-counted slots with LRU eviction of the idle."""

    def __init__(
        self,
        num_slots: int,
        *,
        slot_bytes: int = 1,
        budget_bytes: int | None = None,
        min_residency_s: float = 0.0,
    ) -> None:
        """`slot_bytes`: the most one slot can hold. `budget_bytes`: None for all slots full.

        Raises SlotBudgetError when not one slot fits the budget.
        """
        self._slots = [Slot(index) for index in range(num_slots)]
        self._by_digest: dict[str, Slot] = {}
        self.slot_bytes = slot_bytes
        """The most one slot can hold."""
        self.budget_bytes = num_slots * slot_bytes if budget_bytes is None else budget_bytes
        self._min_residency_s = min_residency_s
        self.pinned: frozenset[str] = frozenset()
        """Evicted last."""
        self.num_changes = 0
        """Grows with every change of a slot."""
        if self.max_adapters < 1:
            raise SlotBudgetError(f"it holds not one adapter: give at least {slot_bytes} bytes")

    @property
    def slots(self) -> Sequence[Slot]:
        """All slots, for reading."""
        return self._slots

    @property
    def max_adapters(self) -> int:
        """Adapters that fit together, however large they are."""
        return min(len(self._slots), self.budget_bytes // self.slot_bytes)

    @property
    def memory_bytes(self) -> int:
        """Bytes held, and kept for what loads."""
        return sum(slot.size_bytes for slot in self._slots)

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

    def form_of(self, digest: str) -> str:
        """The serving form a digest is loaded in; it has a slot."""
        return self._by_digest[digest].form

    def begin_writing(self, digest: str, form: str) -> None:
        """Says that the weights of a digest have come, and in which serving form."""
        slot = self._by_digest[digest]
        slot.form, slot.is_written = form, True

    def is_written(self, digest: str) -> bool:
        """Whether the weights of a digest that has a slot are there or have come."""
        return self._by_digest[digest].is_written

    def acquire(
        self, digests: Sequence[str], now_s: float, wanted: Collection[str] = frozenset()
    ) -> Acquisition | None:
        """Takes one reference on every digest, claiming slots for those that have none.

        All or nothing: None when what is empty or may go is not enough. A digest that is loading
        already is not claimed again, so every digest is loaded once (single flight). `wanted` are
        the digests of all sequences.
        """
        missing = [digest for digest in digests if digest not in self._by_digest]
        victims = self._choose_victims(len(missing), digests, now_s, wanted)
        if victims is None:
            return None
        evictions = tuple(self._empty(slot) for slot in victims)
        claims = tuple(self._claim(digest) for digest in missing)
        self.num_changes += 1
        for digest in digests:
            slot = self._by_digest[digest]
            slot.num_references += 1
            slot.num_uses += 1
            slot.last_used_s = now_s
        indices = tuple(self._by_digest[digest].index for digest in digests)
        return Acquisition(indices, claims, evictions)

    def claim_ahead(
        self, digest: str, evict_digest: str | None, now_s: float
    ) -> Acquisition | None:
        """Gives a slot to a digest that nobody has asked for yet but whose weights are there.

        No reference is taken.
        Only an empty one, or that of `evict_digest` while it is idle, not pinned and not new.
        None when there is none, or when the digest has one already.
        """
        if digest in self._by_digest:
            return None
        victim = self._by_digest.get(evict_digest or "")
        may_go = (
            victim is not None
            and victim.is_idle
            and victim.digest not in self.pinned
            and not self._is_new(victim, now_s)
        )
        evictions: tuple[Eviction, ...] = ()
        if self._shortage(1) != (0, 0):
            if victim is None or not may_go or self._shortage(1, [victim]) != (0, 0):
                return None
            evictions = (self._empty(victim),)
        claim = self._claim(digest)
        slot = self._by_digest[digest]
        slot.is_warm_up, slot.is_written, slot.last_used_s = True, True, now_s
        return Acquisition((slot.index,), (claim,), evictions)

    def release(self, digests: Iterable[str], now_s: float) -> None:
        """Gives back one reference on every digest. Raises ValueError when there is none."""
        self.num_changes += 1
        for digest in digests:
            slot = self._by_digest.get(digest)
            if slot is None or slot.num_references == 0:
                raise ValueError("an adapter slot was released twice")
            slot.num_references -= 1
            slot.last_used_s = now_s

    def mark_resident(self, digest: str, size_bytes: int, now_s: float) -> None:
        """Says that the weights of a loading digest are in its slot, and how large they are."""
        slot = self._by_digest[digest]
        slot.state, slot.size_bytes, slot.resident_since_s = SlotState.RESIDENT, size_bytes, now_s
        slot.is_written = True
        self.num_changes += 1

    def discard(self, digest: str) -> Eviction | None:
        """Empties the slot of an unreferenced digest.

        Returns None, changing nothing, when the digest has no slot or is referenced.
        """
        slot = self._by_digest.get(digest)
        if slot is None or slot.num_references:
            return None
        return self._empty(slot)

    def choose_freed(self, digests: Collection[str], holders: Sequence[str]) -> list[str] | None:
        """The first of `holders`, digests in use, whose going makes room for `digests`.

        Everything idle is counted as going too. None when all of them are not enough.
        """
        missing = sum(digest not in self._by_digest for digest in digests)
        gone = [slot for slot in self._slots if slot.is_idle and slot.digest not in digests]
        chosen: list[str] = []
        for holder in holders:
            if self._shortage(missing, gone) == (0, 0):
                break
            gone.append(self._by_digest[holder])
            chosen.append(holder)
        return chosen if self._shortage(missing, gone) == (0, 0) else None

    def soonest_free(self, digests: Collection[str]) -> list[str]:
        """Digests in use, but for `digests`: fewest references first, then least recently used."""
        held = [slot for slot in self._slots if slot.num_references]
        held.sort(key=lambda slot: (slot.num_references, slot.last_used_s, slot.index))
        return [slot.digest for slot in held if slot.digest and slot.digest not in digests]

    def _choose_victims(
        self, missing: int, digests: Collection[str], now_s: float, wanted: Collection[str]
    ) -> list[Slot] | None:
        idle = [slot for slot in self._slots if slot.is_idle and slot.digest not in digests]
        is_any_busy = any(slot.digest and not slot.is_idle for slot in self._slots)
        if is_any_busy:
            idle = [slot for slot in idle if not self._is_new(slot, now_s)]
        idle.sort(
            key=lambda slot: (
                slot.digest in self.pinned,
                slot.digest in wanted,
                self._is_new(slot, now_s),
                slot.last_used_s,
                slot.index,
            )
        )
        victims: list[Slot] = []
        while self._shortage(missing, victims) != (0, 0):
            if not idle:
                return None
            victims.append(idle.pop(0))
        return victims

    def _shortage(self, missing: int, gone: Collection[Slot] = ()) -> tuple[int, int]:
        """Slots and bytes that are lacking for `missing` digests once some slots are empty."""
        num_free = sum(slot.digest is None for slot in self._slots) + len(gone)
        num_bytes = self.memory_bytes - sum(slot.size_bytes for slot in gone)
        num_bytes += missing * self.slot_bytes
        return max(0, missing - num_free), max(0, num_bytes - self.budget_bytes)

    def _is_new(self, slot: Slot, now_s: float) -> bool:
        return slot.num_uses == 0 and now_s - slot.resident_since_s < self._min_residency_s

    def _claim(self, digest: str) -> Claim:
        self.num_changes += 1
        slot = next(slot for slot in self._slots if slot.digest is None)
        slot.digest, slot.state, slot.size_bytes = digest, SlotState.LOADING, self.slot_bytes
        self._by_digest[digest] = slot
        return Claim(digest, slot.index)

    def _empty(self, slot: Slot) -> Eviction:
        self.num_changes += 1
        assert slot.digest is not None
        eviction = Eviction(
            slot.digest,
            slot.index,
            was_resident=slot.state is SlotState.RESIDENT,
            was_wasted=slot.is_warm_up and slot.num_uses == 0,
        )
        del self._by_digest[slot.digest]
        self._slots[slot.index] = Slot(slot.index)
        return eviction
