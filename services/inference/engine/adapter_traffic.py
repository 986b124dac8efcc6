"""Moves adapters in and out of the slots: wanted, fetched, written, proven, resident, gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from edgelora.errors import EdgeLoraError
from services.inference.backends.base import Backend
from services.inference.engine.adapter_loader import AdapterLoader, LoadOutcome
from services.inference.engine.adapter_proofs import AdapterProofs, WrittenAdapter
from services.inference.engine.adapter_slots import AdapterSlots, Claim, Eviction, SlotState
from services.inference.engine.effect_check import EffectCheck
from services.inference.engine.fetch_failures import split_users
from services.inference.engine.fetched_adapter import (
    CanaryReference,
    FetchCost,
    FetchedAdapter,
    FinishedLoad,
)
from services.inference.engine.generations import Generations
from services.inference.engine.outbox import WantedAdapter
from services.inference.engine.sequence import Priority, Sequence, SequenceStatus
from services.inference.engine.status import SlotStatus


class AdapterTraffic:
    """Acts on what the slot table decides. Belongs to the engine's thread."""

    def __init__(
        self,
        backend: Backend,
        slots: AdapterSlots,
        generations: Generations,
        loader: AdapterLoader,
        effect_check: EffectCheck,
        clock: Callable[[], float],
    ) -> None:
        self._backend = backend
        self._slots = slots
        self._generations = generations
        self._loader = loader
        self.proofs = AdapterProofs(backend, effect_check, self._finish_proof)
        self._clock = clock
        self._being_written: set[str] = set()
        """Digests whose weights the loader has, and those that wait for their proof."""
        self._deleted: frozenset[str] = frozenset()
        self._statuses: tuple[SlotStatus, ...] = ()
        self._num_slot_changes = 0

    def begin_loads(
        self, evictions: Iterable[Eviction], claims: list[Claim], seated: Iterable[Sequence]
    ) -> None:
        """Empties slots, and asks for the adapters that are to fill the claimed ones."""
        filled_again = {claim.slot for claim in claims}
        for eviction in evictions:
            self._unload(eviction, keep_memory=eviction.slot in filled_again)
        for claim in claims:
            user = self._generations.using(claim.digest)[0]
            self._generations.outbox.wanted.append(WantedAdapter(claim.digest, user.ticket))
            self._generations.outbox.is_residency_changed = True
        for sequence in seated:
            if sequence.status is SequenceStatus.LOADING and not self._has_all(sequence):
                self._generations.of(sequence).begin_loading(self._clock())

    def load(self, digest: str, fetched: FetchedAdapter) -> None:
        """Has a fetched adapter written into the slot that waits for it."""
        slot = self._slots.find(digest)
        if slot is None or slot.state is not SlotState.LOADING or digest in self._being_written:
            return
        self._write(digest, slot.index, fetched)

    def warm_up(self, digest: str, evict_digest: str | None, fetched: FetchedAdapter) -> None:
        """Has an adapter written into a slot that nobody needs, ahead of use.

        Nothing happens when a request needs a slot, when the adapter has one or is gone from
        the registry, or when neither a slot is empty nor `evict_digest` may go.
        """
        slot = self._slots.find(digest)
        if slot is not None:
            # A request has come first and waits for the same bytes.
            self.load(digest, fetched)
            return
        if digest in self._deleted or self._generations.is_any_slot_wanted():
            return
        acquisition = self._slots.claim_ahead(digest, evict_digest, self._clock())
        if acquisition is None:
            return
        for eviction in acquisition.evictions:
            self._unload(eviction, keep_memory=True)
        self._generations.outbox.is_residency_changed = True
        self._write(digest, acquisition.slots[0], fetched)

    def set_pinned(self, digests: frozenset[str]) -> None:
        """Replaces the set of adapters that are evicted last."""
        self._slots.pinned = digests

    def give_up(self, digest: str, ticket: object, error: EdgeLoraError) -> None:
        """Ends the wait for an adapter that could not be fetched with a ticket.

        The generations it concerns fail, see fetch_failures. Another one's ticket is tried next.
        """
        if digest in self._being_written:
            return
        failed, others = split_users(self._generations.using(digest), ticket, error)
        for generation in failed:
            self._generations.fail(generation, error)
        # Without a slot it is asked for again when it has one.
        if others and self._slots.find(digest) is not None:
            self._generations.outbox.wanted.append(WantedAdapter(digest, others[0].ticket))
            return
        self._empty_slot(digest)

    def set_deleted(self, digests: frozenset[str]) -> None:
        """Replaces the set of adapters that are gone from the registry."""
        self._deleted = digests
        self.drop_deleted()

    def are_deleted(self, digests: Iterable[str]) -> bool:
        """Whether one of these is gone from the registry."""
        return not self._deleted.isdisjoint(digests)

    def drop_deleted(self) -> None:
        """Empties the slots of adapters that are gone and that nobody uses any more."""
        for digest in self._deleted:
            if self._slots.is_resident(digest):
                self._empty_slot(digest)

    def statuses(self) -> tuple[SlotStatus, ...]:
        """All slots that are not empty."""
        # Most steps change no slot.
        if self._slots.num_changes != self._num_slot_changes:
            self._num_slot_changes = self._slots.num_changes
            self._statuses = tuple(
                SlotStatus(
                    slot.digest,
                    slot.num_references,
                    slot.last_used_s,
                    slot.state is SlotState.LOADING,
                    slot.size_bytes,
                )
                for slot in self._slots.slots
                if slot.digest is not None
            )
        return self._statuses

    def close(self) -> None:
        """Ends the loading, so that nothing writes to the back end any more."""
        self._loader.close()

    def _write(self, digest: str, slot: int, fetched: FetchedAdapter) -> None:
        self._being_written.add(digest)
        self._slots.begin_writing(digest, fetched.form)
        # What waits for the end of the load must not keep the adapter itself.
        done = partial(self._finish_load, digest, fetched.reference, fetched.cost)
        users = self._generations.using(digest)
        is_urgent = any(each.sequence.priority is Priority.INTERACTIVE for each in users)
        self._loader.load(slot, fetched.adapter, done, is_urgent=is_urgent)

    def _finish_load(
        self,
        digest: str,
        reference: CanaryReference | None,
        cost: FetchCost,
        outcome: LoadOutcome,
    ) -> None:
        slot = self._slots.find(digest)
        assert slot is not None  # one that loads is never evicted
        self.proofs.add(
            WrittenAdapter(
                digest=digest, slot=slot.index, reference=reference, cost=cost, outcome=outcome
            )
        )
        if not self._generations.is_any_running():
            self.proofs.run_alone()

    def _finish_proof(
        self, written: WrittenAdapter, prove_s: float, refusal: EdgeLoraError | None
    ) -> None:
        """Lets the users of an adapter go on, or ends them."""
        digest = written.digest
        self._being_written.discard(digest)
        if refusal is not None:
            self._refuse(digest, refusal)
            return
        slot = self._slots.find(digest)
        assert slot is not None
        load = FinishedLoad(
            digest=digest,
            is_warm_up=slot.is_warm_up and slot.num_uses == 0,
            cost=written.cost,
            decode_s=written.outcome.decode_s,
            prove_s=prove_s,
        )
        now_s = self._clock()
        self._slots.mark_resident(digest, written.outcome.size_bytes, now_s)
        for generation in self._generations.using(digest):
            if self._has_all(generation.sequence):
                generation.end_loading(now_s)
        self._generations.outbox.loads.append(load)
        self._generations.outbox.is_residency_changed = True
        self.drop_deleted()

    def _has_all(self, sequence: Sequence) -> bool:
        return all(map(self._slots.is_resident, sequence.digests))

    def _refuse(self, digest: str, error: EdgeLoraError) -> None:
        self._generations.outbox.refused.append((digest, error))
        for generation in self._generations.using(digest):
            self._generations.fail(generation, error)
        self._empty_slot(digest)

    def _empty_slot(self, digest: str) -> None:
        eviction = self._slots.discard(digest)
        if eviction is not None:
            self._unload(eviction)

    def _unload(self, eviction: Eviction, *, keep_memory: bool = False) -> None:
        self._backend.unload_adapter(eviction.slot, keep_memory=keep_memory)
        outbox = self._generations.outbox
        outbox.is_residency_changed = True
        if eviction.was_resident:
            outbox.evictions.append(eviction)
