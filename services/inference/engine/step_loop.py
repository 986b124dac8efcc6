"""Everything that happens between two steps and in one, without threads: the engine's inside.

Owned by one thread. What has to be told to the outside is collected in an `Outbox`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from edgelora.adapter_format.weights import AdapterWeights
from edgelora.errors import (
    AdapterNotFoundError,
    EdgeLoraError,
    InternalError,
    PermissionDeniedError,
    TicketExpiredError,
    UnauthenticatedError,
)
from services.chassis.logs import get_logger
from services.inference.backends.base import Backend, SequenceChunk
from services.inference.engine.adapter_loader import AdapterLoader
from services.inference.engine.adapter_slots import Claim, SlotState
from services.inference.engine.effect_check import EffectCheck
from services.inference.engine.events import Admitted, Event, Failed
from services.inference.engine.generation import Generation
from services.inference.engine.iteration_scheduler import (
    IterationScheduler,
    ScheduledChunk,
    StepPlan,
)
from services.inference.engine.outbox import Outbox, WantedAdapter
from services.inference.engine.sampler import Logits, sample_rows
from services.inference.engine.sequence import SequenceStatus
from services.inference.engine.status import EngineStatus, SlotStatus

_TICKET_ERRORS = (TicketExpiredError, UnauthenticatedError, PermissionDeniedError)
"""Faults of the ticket an adapter was fetched with, not of the adapter."""


class StepLoop:
    """Adds, runs and removes sequences; moves adapters into slots."""

    def __init__(
        self,
        backend: Backend,
        scheduler: IterationScheduler,
        loader: AdapterLoader,
        effect_check: EffectCheck,
        clock: Callable[[], float],
    ) -> None:
        self._backend = backend
        self._scheduler = scheduler
        self._slots = scheduler.slots
        self._loader = loader
        self._effect_check = effect_check
        self._clock = clock
        self._memory = backend.telemetry()
        self._generations: dict[int, Generation] = {}
        self._filling: set[str] = set()
        """Digests whose weights are being written into their slots."""
        self._deleted: frozenset[str] = frozenset()
        self._outbox = Outbox()
        self._newest_slots: tuple[SlotStatus, ...] = ()
        self._num_slot_changes = 0
        self._num_steps = self._num_output_tokens = 0
        self._num_preemptions = self._num_failed_rows = 0
        self._last_step_s = clock()

    def take_outbox(self) -> Outbox:
        """Returns what was collected since the last call."""
        outbox, self._outbox = self._outbox, Outbox()
        return outbox

    def close(self) -> None:
        """Ends the loading of adapters, so that nothing writes to the back end any more."""
        self._loader.close()

    # Commands.

    def add(self, generation: Generation) -> None:
        """Queues a new generation."""
        sequence = generation.sequence
        self._generations[sequence.sequence_id] = generation
        self._scheduler.add(sequence)
        if not self._deleted.isdisjoint(sequence.digests):
            self._fail(generation, AdapterNotFoundError("the adapter was deleted"))

    def cancel(self, sequence_id: int) -> None:
        """Frees all a generation holds. Unknown and ended ones are ignored."""
        generation = self._generations.pop(sequence_id, None)
        if generation is not None:
            self._scheduler.remove(generation.sequence, self._clock())
            self._drop_deleted()

    def fail_all(self, error: EdgeLoraError) -> None:
        """Cuts every generation."""
        for generation in list(self._generations.values()):
            self._fail(generation, error)

    def load_adapter(self, digest: str, weights: AdapterWeights) -> None:
        """Has fetched weights written into the slot that waits for them."""
        slot = self._slots.find(digest)
        if slot is None or slot.state is not SlotState.LOADING or digest in self._filling:
            return
        self._filling.add(digest)
        self._loader.load(slot.index, weights, partial(self._finish_load, digest, slot.index))

    def give_adapter_up(self, digest: str, ticket: object, error: EdgeLoraError) -> None:
        """Ends the wait for an adapter that could not be fetched with a ticket.

        A fault of the ticket costs only the generations that came with it; another one's ticket
        is tried next.
        """
        if digest in self._filling:
            return
        users = self._users(digest)
        if isinstance(error, _TICKET_ERRORS):
            for generation in users:
                if generation.ticket is ticket:
                    self._fail(generation, error)
            users = [generation for generation in users if generation.ticket is not ticket]
            if users:
                self._outbox.wanted.append(WantedAdapter(digest, users[0].ticket))
                return
        for generation in users:
            self._fail(generation, error)
        self._empty_slot(digest)

    def set_deleted(self, digests: frozenset[str]) -> None:
        """Replaces the set of adapters that are gone from the registry."""
        self._deleted = digests
        self._drop_deleted()

    # One step.

    def step(self) -> bool:
        """Runs one step; False when there was nothing to run."""
        now_s = self._clock()
        plan = self._scheduler.schedule(now_s)
        self._begin_loads(plan.claims, now_s)
        for sequence in plan.preempted:
            self._num_preemptions += 1
            self._send_delta(self._generations[sequence.sequence_id], now_s, is_urgent=True)
        if not plan.chunks:
            return False
        self._note_step(plan, now_s)
        self._sample(*self._forward(plan.chunks))
        self._num_steps += 1
        self._last_step_s = self._clock()
        return True

    def status(self) -> EngineStatus:
        """Counts now."""
        scheduler = self._scheduler
        return EngineStatus(
            num_running=len(scheduler.seated),
            num_waiting=len(scheduler.waiting),
            num_kv_blocks=scheduler.blocks.num_blocks,
            num_free_kv_blocks=scheduler.blocks.num_free,
            num_cached_kv_blocks=scheduler.blocks.num_published,
            num_adapter_slots=len(self._slots.slots),
            num_adapter_references=self._slots.num_references,
            num_steps=self._num_steps,
            num_output_tokens=self._num_output_tokens,
            num_preemptions=self._num_preemptions,
            num_failed_rows=self._num_failed_rows,
            num_prefix_lookup_tokens=scheduler.prefixes.num_lookup_tokens,
            num_prefix_hit_tokens=scheduler.prefixes.num_hit_tokens,
            last_step_s=self._last_step_s,
            slots=self._slot_statuses(),
            memory=self._memory,
        )

    def _slot_statuses(self) -> tuple[SlotStatus, ...]:
        # Most steps change no slot.
        if self._slots.num_changes != self._num_slot_changes:
            self._num_slot_changes = self._slots.num_changes
            self._newest_slots = tuple(
                SlotStatus(
                    slot.digest,
                    slot.num_references,
                    slot.last_used_s,
                    slot.state is SlotState.LOADING,
                )
                for slot in self._slots.slots
                if slot.digest is not None
            )
        return self._newest_slots

    def _begin_loads(self, claims: list[Claim], now_s: float) -> None:
        for claim in claims:
            if claim.evicted_digest is not None:
                self._backend.unload_adapter(claim.slot)
            user = self._users(claim.digest)[0]
            self._outbox.wanted.append(WantedAdapter(claim.digest, user.ticket))
            self._outbox.is_residency_changed = True
        for sequence in self._scheduler.seated:
            is_loading = sequence.status is SequenceStatus.LOADING
            if is_loading and not all(map(self._slots.is_resident, sequence.digests)):
                self._generations[sequence.sequence_id].begin_loading(now_s)

    def _finish_load(self, digest: str, slot: int, error: Exception | None) -> None:
        """Proves the effect of an adapter that was written, and lets its users go on."""
        self._filling.discard(digest)
        try:
            if error is not None:
                raise error
            self._effect_check.run(self._backend, slot)
        except EdgeLoraError as refusal:
            self._refuse(digest, refusal)
        except Exception as failure:  # noqa: BLE001 - a bad adapter must not end the engine
            get_logger().error("adapter_load_failed", digest=digest, error=type(failure).__name__)
            self._refuse(digest, InternalError("the adapter could not be loaded"))
        else:
            self._slots.mark_resident(digest)
            now_s = self._clock()
            for generation in self._users(digest):
                if all(map(self._slots.is_resident, generation.sequence.digests)):
                    generation.end_loading(now_s)
            self._outbox.is_residency_changed = True
            self._drop_deleted()

    def _note_step(self, plan: StepPlan, now_s: float) -> None:
        for chunk in plan.chunks:
            sequence_id = chunk.sequence.sequence_id
            if self._generations[sequence_id].note_step(now_s, len(plan.chunks)):
                self._outbox.events.append((sequence_id, Admitted()))

    def _forward(self, chunks: list[ScheduledChunk]) -> tuple[list[ScheduledChunk], Logits]:
        """Runs chunks; returns those that reached their newest token, and their rows.

        When the batch fails, each chunk runs alone (running tokens again writes the same keys and
        values), so that only those that fail by themselves are cut.
        """
        try:
            logits = self._backend.forward([_to_backend(chunk) for chunk in chunks])
        except Exception as error:  # noqa: BLE001 - one bad row must not end the others
            get_logger().error(
                "forward_failed", error=type(error).__name__, num_sequences=len(chunks)
            )
            if len(chunks) == 1:
                self._fail_row(chunks[0], InternalError("the model failed"))
                return [], np.empty((0, 0), dtype=np.float32)
            parts = [self._forward([chunk]) for chunk in chunks]
            rows = [logits for _, logits in parts if len(logits)]
            finished = [chunk for finished, _ in parts for chunk in finished]
            return finished, np.concatenate(rows) if rows else np.empty((0, 0), np.float32)
        finished = [chunk for chunk in chunks if chunk.needs_logits]
        for chunk in chunks:
            chunk.sequence.num_cached_tokens += chunk.num_tokens
            self._scheduler.prefixes.publish(chunk.sequence)
        return finished, logits

    def _sample(self, chunks: list[ScheduledChunk], logits: Logits) -> None:
        if not chunks:
            return
        now_s = self._clock()
        generations = [self._generation(chunk) for chunk in chunks]
        tokens = sample_rows(logits, [generation.sampler for generation in generations])
        for chunk, generation, token in zip(chunks, generations, tokens, strict=True):
            if token is None:
                get_logger().error("logits_not_finite", digests=generation.sequence.digests)
                self._fail_row(chunk, InternalError("the model's output was not a number"))
                continue
            reason = generation.accept(token, now_s)
            self._num_output_tokens += 1
            self._send_delta(generation, now_s, is_urgent=reason is not None)
            if reason is not None:
                self._end(generation, generation.completed(reason, now_s))

    def _send_delta(self, generation: Generation, now_s: float, *, is_urgent: bool) -> None:
        delta = generation.take_delta(now_s, is_urgent=is_urgent)
        if delta is not None:
            self._outbox.events.append((generation.sequence.sequence_id, delta))

    # Endings.

    def _generation(self, chunk: ScheduledChunk) -> Generation:
        return self._generations[chunk.sequence.sequence_id]

    def _users(self, digest: str) -> list[Generation]:
        return [each for each in self._generations.values() if digest in each.sequence.digests]

    def _fail_row(self, chunk: ScheduledChunk, error: EdgeLoraError) -> None:
        self._num_failed_rows += 1
        self._scheduler.prefixes.withdraw(chunk.sequence)
        self._fail(self._generation(chunk), error)

    def _fail(self, generation: Generation, error: EdgeLoraError) -> None:
        self._end(generation, Failed(error))

    def _end(self, generation: Generation, event: Event) -> None:
        sequence_id = generation.sequence.sequence_id
        self._outbox.events.append((sequence_id, event))
        self.cancel(sequence_id)

    def _refuse(self, digest: str, error: EdgeLoraError) -> None:
        self._outbox.refused.append((digest, error))
        for generation in self._users(digest):
            self._fail(generation, error)
        self._empty_slot(digest)

    def _empty_slot(self, digest: str) -> None:
        index = self._slots.discard(digest)
        if index is not None:
            self._backend.unload_adapter(index)
            self._outbox.is_residency_changed = True

    def _drop_deleted(self) -> None:
        for digest in self._deleted:
            if self._slots.is_resident(digest):
                self._empty_slot(digest)


def _to_backend(chunk: ScheduledChunk) -> SequenceChunk:
    sequence = chunk.sequence
    start = sequence.num_cached_tokens
    return SequenceChunk(
        token_ids=np.array(sequence.token_ids[start : start + chunk.num_tokens], dtype=np.int32),
        start_position=start,
        block_table=sequence.block_table,
        adapters=sequence.slot_weights,
        needs_logits=chunk.needs_logits,
    )
