"""Moves adapters in and out of the slots: wanted, fetched, written, proven, resident, gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from edgelora.adapter_format.weights import AdapterWeights
from edgelora.errors import (
    AdapterRejectedError,
    EdgeLoraError,
    InternalError,
    PermissionDeniedError,
    TicketExpiredError,
    UnauthenticatedError,
)
from services.chassis.logs import get_logger
from services.inference.backends.base import Backend, UnfitAdapterError
from services.inference.engine.adapter_loader import AdapterLoader
from services.inference.engine.adapter_slots import AdapterSlots, Claim, SlotState
from services.inference.engine.effect_check import EffectCheck
from services.inference.engine.generations import Generations
from services.inference.engine.outbox import WantedAdapter
from services.inference.engine.sequence import Sequence, SequenceStatus
from services.inference.engine.status import SlotStatus

_TICKET_ERRORS = (TicketExpiredError, UnauthenticatedError, PermissionDeniedError)
"""Faults of the ticket an adapter was fetched with, not of the adapter."""


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
        self._effect_check = effect_check
        self._clock = clock
        self._being_written: set[str] = set()
        """Digests whose weights the loader has."""
        self._deleted: frozenset[str] = frozenset()
        self._statuses: tuple[SlotStatus, ...] = ()
        self._num_slot_changes = 0

    def begin_loads(self, claims: Iterable[Claim], seated: Iterable[Sequence]) -> None:
        """Empties claimed slots and asks for the adapters that are to fill them."""
        outbox = self._generations.outbox
        for claim in claims:
            if claim.evicted_digest is not None:
                self._backend.unload_adapter(claim.slot)
            user = self._generations.using(claim.digest)[0]
            outbox.wanted.append(WantedAdapter(claim.digest, user.ticket))
            outbox.is_residency_changed = True
        for sequence in seated:
            if sequence.status is SequenceStatus.LOADING and not self._has_all(sequence):
                self._generations.of(sequence).begin_loading(self._clock())

    def load(self, digest: str, weights: AdapterWeights) -> None:
        """Has fetched weights written into the slot that waits for them."""
        slot = self._slots.find(digest)
        if slot is None or slot.state is not SlotState.LOADING or digest in self._being_written:
            return
        self._being_written.add(digest)
        self._loader.load(slot.index, weights, partial(self._finish_load, digest, slot.index))

    def give_up(self, digest: str, ticket: object, error: EdgeLoraError) -> None:
        """Ends the wait for an adapter that could not be fetched with a ticket.

        A fault of the ticket costs only the generations that came with it; another one's ticket
        is tried next.
        """
        if digest in self._being_written:
            return
        users = self._generations.using(digest)
        if isinstance(error, _TICKET_ERRORS):
            for generation in users:
                if generation.ticket is ticket:
                    self._generations.fail(generation, error)
            users = [generation for generation in users if generation.ticket is not ticket]
            if users:
                wanted = WantedAdapter(digest, users[0].ticket)
                self._generations.outbox.wanted.append(wanted)
                return
        for generation in users:
            self._generations.fail(generation, error)
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
                )
                for slot in self._slots.slots
                if slot.digest is not None
            )
        return self._statuses

    def close(self) -> None:
        """Ends the loading, so that nothing writes to the back end any more."""
        self._loader.close()

    def _finish_load(self, digest: str, slot: int, error: Exception | None) -> None:
        """Proves the effect of an adapter that was written, and lets its users go on."""
        self._being_written.discard(digest)
        try:
            if error is not None:
                raise error
            self._effect_check.run(self._backend, slot)
        except EdgeLoraError as refusal:
            self._refuse(digest, refusal)
        except UnfitAdapterError as unfit:
            self._refuse(digest, AdapterRejectedError(str(unfit), field="weights"))
        except Exception as failure:  # noqa: BLE001 - a bad adapter must not end the engine
            get_logger().error("adapter_load_failed", digest=digest, error=type(failure).__name__)
            self._refuse(digest, InternalError("the adapter could not be loaded"))
        else:
            self._slots.mark_resident(digest)
            now_s = self._clock()
            for generation in self._generations.using(digest):
                if self._has_all(generation.sequence):
                    generation.end_loading(now_s)
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
        index = self._slots.discard(digest)
        if index is not None:
            self._backend.unload_adapter(index)
            self._generations.outbox.is_residency_changed = True
