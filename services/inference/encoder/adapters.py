"""Moves adapters in and out of the encoder's slots: wanted, fetched, written, proven, gone.

Factors are small beside a decoder's, so they are written and proven between two steps. A
classifier stays here as it is; one without factors has a slot as well, so that all that is said of
slots (references, eviction, pins, reports) holds for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgelora.adapter_format.head import ClassifierHead
from edgelora.errors import (
    AdapterRejectedError,
    EdgeLoraError,
    InternalError,
    InvalidRequestError,
)
from services.chassis.logs import get_logger
from services.inference.backends.base import SlotWeight, UnfitAdapterError
from services.inference.encoder.backend import EncoderBackend, Pooling
from services.inference.encoder.effect_proof import EffectProof
from services.inference.encoder.encoding import Encoding
from services.inference.encoder.fetched_encoder import FetchedEncoderAdapter
from services.inference.encoder.outbox import EncoderOutbox
from services.inference.encoder.text_queue import TextQueue
from services.inference.engine.adapter_slots import AdapterSlots, Eviction, SlotState
from services.inference.engine.fetch_failures import split_users
from services.inference.engine.fetched_adapter import FinishedLoad
from services.inference.engine.outbox import WantedAdapter
from services.inference.engine.status import SlotStatus


@dataclass(frozen=True, slots=True)
class _Resident:
    """What is known of an adapter in a slot beside its factors."""

    head: ClassifierHead | None
    has_factors: bool

    @property
    def head_bytes(self) -> int:
        return 0 if self.head is None else self.head.weight.nbytes + self.head.bias.nbytes


class EncoderAdapters:
    """Acts on what the slot table decides. Belongs to the engine's thread."""

    def __init__(
        self,
        backend: EncoderBackend,
        slots: AdapterSlots,
        queue: TextQueue,
        proof: EffectProof,
        *,
        pooling: Pooling,
        fail: Callable[[Encoding, EdgeLoraError], None],
        clock: Callable[[], float],
    ) -> None:
        """`pooling`: where no classifier says another. `fail`: ends a request."""
        self._backend = backend
        self._slots = slots
        self._queue = queue
        self._proof = proof
        self._pooling = pooling
        self._fail = fail
        self._clock = clock
        self._resident: dict[str, _Resident] = {}
        self._deleted: frozenset[str] = frozenset()
        self.num_slot_waits = 0
        self.outbox = EncoderOutbox()
        """Replaced by whoever takes it."""

    def admit(self, now_s: float) -> None:
        """Gives slots to those that wait for them, and asks for adapters that are in none.

        One that finds no room is overtaken by those whose adapters are there, until it has waited
        long: then nobody is given a slot before it.
        """
        waiting = self._queue.waiting_for_slots(now_s)
        if not waiting:
            return
        wanted = frozenset(digest for each in self._queue for digest in each.digests)
        for encoding in waiting:
            acquisition = self._slots.acquire(encoding.digests, now_s, wanted)
            if acquisition is None:
                self.num_slot_waits += not encoding.has_waited_for_slot
                encoding.has_waited_for_slot = True
                if self._queue.has_waited_long(encoding, now_s):
                    return
                continue
            for eviction in acquisition.evictions:
                self._unload(eviction)
            encoding.slots, encoding.admitted_s = acquisition.slots, now_s
            for claim in acquisition.claims:
                self.outbox.wanted.append(WantedAdapter(claim.digest, encoding.ticket))
                self.outbox.is_residency_changed = True
            self._note_ready(encoding, now_s)

    def release(self, encoding: Encoding, now_s: float) -> None:
        """Gives back the references of a request that has ended."""
        if encoding.slots is not None:
            self._slots.release(encoding.digests, now_s)
            encoding.slots = None

    def is_ready(self, encoding: Encoding) -> bool:
        """Whether all its adapters are there."""
        return not encoding.adapters or encoding.ready_s is not None

    def head_of(self, encoding: Encoding) -> ClassifierHead | None:
        """The classifier of a request that wants one and is ready."""
        return self._resident[encoding.digests[0]].head if encoding.wants_head else None

    def pooling_of(self, encoding: Encoding) -> Pooling:
        """How the vectors of a request that is ready are made."""
        head = self.head_of(encoding)
        return self._pooling if head is None else head.pooling

    def slot_weights(self, encoding: Encoding) -> tuple[SlotWeight, ...]:
        """What runs with the texts of a request that is ready; empty is the base model."""
        return tuple(
            SlotWeight(slot, use.weight)
            for use, slot in zip(encoding.adapters, encoding.slots or (), strict=True)
            if use.weight and self._resident[use.digest].has_factors
        )

    def load(self, digest: str, fetched: FetchedEncoderAdapter) -> None:
        """Writes a fetched adapter into the slot that waits for it, and proves it."""
        slot = self._slots.find(digest)
        if slot is None or slot.state is not SlotState.LOADING:
            return
        pooling = self._pooling if fetched.head is None else fetched.head.pooling
        started_s = time.perf_counter()
        try:
            size_bytes = 0
            if fetched.weights.pairs:
                size_bytes = self._backend.load_adapter(slot.index, fetched.weights)
            written_s = time.perf_counter()
            factors_slot = slot.index if fetched.weights.pairs else None
            self._proof.check(factors_slot, pooling, fetched.head)
        except Exception as error:  # noqa: BLE001 - a bad adapter must not end the engine
            self._refuse(digest, _to_refusal(digest, error))
            return
        now_s = self._clock()
        self._resident[digest] = _Resident(fetched.head, has_factors=bool(fetched.weights.pairs))
        self.outbox.loads.append(
            FinishedLoad(
                digest=digest,
                is_warm_up=slot.is_warm_up and slot.num_uses == 0,
                cost=fetched.cost,
                decode_s=written_s - started_s,
                prove_s=time.perf_counter() - written_s,
            )
        )
        self.outbox.is_residency_changed = True
        self._slots.mark_resident(digest, size_bytes, now_s)
        for encoding in self._queue.using(digest):
            if encoding.slots is not None:
                self._note_ready(encoding, now_s)
        self.drop_deleted()

    def warm_up(
        self, digest: str, evict_digest: str | None, fetched: FetchedEncoderAdapter
    ) -> None:
        """Puts an adapter into a slot that nobody needs, ahead of use, if there is one."""
        if self._slots.find(digest) is None:
            now_s = self._clock()
            if digest in self._deleted or self._queue.waiting_for_slots(now_s):
                return
            acquisition = self._slots.claim_ahead(digest, evict_digest, now_s)
            if acquisition is None:
                return
            for eviction in acquisition.evictions:
                self._unload(eviction)
        self.load(digest, fetched)

    def give_up(self, digest: str, ticket: object, error: EdgeLoraError) -> None:
        """Ends the wait for an adapter that could not be fetched with a ticket.

        The requests it concerns fail, see fetch_failures. Another one's ticket is tried next.
        """
        slot = self._slots.find(digest)
        if slot is not None and slot.state is SlotState.RESIDENT:
            return
        failed, others = split_users(self._queue.using(digest), ticket, error)
        for encoding in failed:
            self._fail(encoding, error)
        holders = [each for each in others if each.slots is not None]
        if holders:
            self.outbox.wanted.append(WantedAdapter(digest, holders[0].ticket))
        else:
            self._empty_slot(digest)

    def set_pinned(self, digests: frozenset[str]) -> None:
        """Replaces the set of adapters that are evicted last."""
        self._slots.pinned = digests

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
        """All slots that are not empty; the bytes of classifiers with them."""
        return tuple(
            SlotStatus(
                slot.digest,
                slot.num_references,
                slot.last_used_s,
                slot.state is SlotState.LOADING,
                slot.size_bytes + self._head_bytes(slot.digest),
            )
            for slot in self._slots.slots
            if slot.digest is not None
        )

    def _head_bytes(self, digest: str) -> int:
        resident = self._resident.get(digest)
        return 0 if resident is None else resident.head_bytes

    def _note_ready(self, encoding: Encoding, now_s: float) -> None:
        """Lets a request with slots run once all its adapters are there."""
        if not all(map(self._slots.is_resident, encoding.digests)):
            return
        encoding.ready_s = now_s
        if encoding.wants_head and self.head_of(encoding) is None:
            self._fail(
                encoding,
                InvalidRequestError(
                    "adapter: it has no classifier: embed with it, or give one that has",
                    field="adapter",
                ),
            )

    def _refuse(self, digest: str, error: EdgeLoraError) -> None:
        self.outbox.refused.append((digest, error))
        for encoding in self._queue.using(digest):
            self._fail(encoding, error)
        self._empty_slot(digest)

    def _empty_slot(self, digest: str) -> None:
        eviction = self._slots.discard(digest)
        if eviction is not None:
            self._unload(eviction)

    def _unload(self, eviction: Eviction) -> None:
        self._backend.unload_adapter(eviction.slot)
        self._resident.pop(eviction.digest, None)
        self.outbox.is_residency_changed = True
        if eviction.was_resident:
            self.outbox.evictions.append(eviction)


def _to_refusal(digest: str, error: Exception) -> EdgeLoraError:
    if isinstance(error, EdgeLoraError):
        return error
    if isinstance(error, UnfitAdapterError):
        return AdapterRejectedError(str(error), field="weights")
    get_logger().error("adapter_load_failed", digest=digest, error=type(error).__name__)
    return InternalError("the adapter could not be loaded")
