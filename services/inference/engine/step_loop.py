"""Everything that happens between two steps and in one, without threads: the engine's inside.

Owned by one thread. What has to be told to the outside is collected in an `Outbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from edgelora.errors import (
    AdapterNotFoundError,
    EdgeLoraError,
    InternalError,
    InvalidRequestError,
)
from services.chassis.logs import get_logger
from services.inference.backends.base import Backend, SequenceChunk, SlotWeight
from services.inference.backends.sampling import ChosenToken, RowSampling
from services.inference.engine.adapter_loader import AdapterLoader
from services.inference.engine.adapter_traffic import AdapterTraffic
from services.inference.engine.effect_check import EffectCheck
from services.inference.engine.events import Admitted
from services.inference.engine.generation import Generation
from services.inference.engine.generations import Generations
from services.inference.engine.iteration_scheduler import (
    IterationScheduler,
    ScheduledChunk,
    StepPlan,
)
from services.inference.engine.outbox import Outbox
from services.inference.engine.run_limits import RunLimits
from services.inference.engine.sequence import AdapterUse
from services.inference.engine.shares import Row, Shares
from services.inference.engine.status import EngineStatus

StepObserver = Callable[[float, Sequence[Row]], None]
"""Told the seconds of each step and what its sequences had in it; on the engine's thread, so it
must be quick, and must not raise."""


class StepLoop:
    """Adds, runs and removes sequences."""

    def __init__(
        self,
        backend: Backend,
        scheduler: IterationScheduler,
        loader: AdapterLoader,
        effect_check: EffectCheck,
        shares: Shares,
        clock: Callable[[], float],
    ) -> None:
        self._backend = backend
        self._shares = shares
        self._num_canary_tokens = effect_check.num_tokens
        self._scheduler = scheduler
        self._clock = clock
        self._memory = backend.telemetry()
        self._generations = Generations(scheduler, clock)
        self.adapters = AdapterTraffic(
            backend, scheduler.slots, self._generations, loader, effect_check, clock
        )
        self._num_steps = self._num_output_tokens = 0
        self._num_preemptions = self._num_failed_rows = self._num_recomputed_tokens = 0
        self._last_step_s = clock()
        self.observe: StepObserver | None = None
        self._undivided_s = 0.0
        """Of the last step, after its tokens were chosen: it goes with the next one."""
        self._failed: list[tuple[ScheduledChunk, EdgeLoraError]] = []

    def take_outbox(self) -> Outbox:
        """Returns what was collected since the last call."""
        return self._generations.take_outbox()

    def add(self, generation: Generation) -> None:
        """Queues a new generation."""
        self._generations.add(generation)
        if self.adapters.are_deleted(generation.sequence.digests):
            self._generations.fail(generation, AdapterNotFoundError("the adapter was deleted"))

    def cancel(self, sequence_id: int) -> None:
        """Frees all a generation holds. Unknown and ended ones are ignored."""
        self._generations.remove(sequence_id)

    def set_strength(
        self, sequence_id: int, digest: str, weight: float
    ) -> tuple[AdapterUse, ...] | None:
        """Changes the strength of an adapter of a generation from its next token on.

        Returns the strengths in force; None when it has ended, or has no such adapter.
        """
        generation = self._generations.find(sequence_id)
        if generation is None or digest not in generation.sequence.digests:
            return None
        generation.sequence.set_strength(digest, weight)
        return generation.sequence.uses

    def forget(self, tenant_id: str, session: str) -> int:
        """Drops a session of a tenant, or all where it is empty; returns how many were kept.

        Its running requests go on, and leave nothing.
        """
        for generation in self._generations.of_session(tenant_id, session):
            generation.sequence.is_forgotten = True
        return self._scheduler.sessions.forget(tenant_id, session)

    def set_deleted(self, digests: frozenset[str]) -> None:
        """Replaces the set of adapters that are gone from the registry."""
        self.adapters.set_deleted(digests)
        self._scheduler.sessions.drop_adapters(digests)

    @property
    def next_expiry_s(self) -> float:
        """When a step has something to do for sessions alone; infinite for never."""
        return self._scheduler.sessions.next_expiry_s

    def fail_all(self, error: EdgeLoraError) -> None:
        """Cuts every generation."""
        self._generations.fail_all(error)

    def limit(self, limits: RunLimits) -> None:
        """Uses so much from the next step on."""
        self._scheduler.max_num_seqs = limits.max_num_seqs
        self._scheduler.max_prefill_tokens = limits.max_prefill_tokens
        if limits.num_threads != self._backend.num_threads:  # it wakes those that sleep
            self._backend.set_num_threads(limits.num_threads)

    def step(self) -> bool:
        """Runs one step; False when there was nothing to run."""
        now_s = self._clock()
        self.adapters.drop_deleted()
        self._scheduler.sessions.expire(now_s)
        plan = self._scheduler.schedule(now_s)
        self.adapters.begin_loads(plan.evictions, plan.claims, self._scheduler.seated)
        for sequence in plan.preempted:
            self._num_preemptions += 1
            self._send_delta(self._generations.of(sequence), now_s, is_urgent=True)
        if not plan.chunks:
            # What was proven may have somebody waiting for it.
            return self.adapters.proofs.run_alone()
        self._note_step(plan, now_s)
        rows = [self._row(chunk) for chunk in plan.chunks]
        chunks, logits = self._forward_with_proof(plan.chunks, rows)
        chunks, chosen_tokens = self._choose_tokens(chunks, logits)
        chosen_s = self._clock()
        self._divide(chosen_s - now_s, plan.chunks, rows)
        if self.observe is not None:
            self.observe(chosen_s - now_s, rows)
        self._accept(chunks, chosen_tokens, chosen_s)
        self._num_steps += 1
        self._last_step_s = self._clock()
        self._undivided_s = self._last_step_s - chosen_s
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
            num_adapter_slots=len(scheduler.slots.slots),
            num_adapter_references=scheduler.slots.num_references,
            num_slot_waits=scheduler.num_slot_waits,
            adapter_budget_bytes=scheduler.slots.budget_bytes,
            num_steps=self._num_steps,
            num_output_tokens=self._num_output_tokens,
            num_preemptions=self._num_preemptions,
            num_recomputed_tokens=self._num_recomputed_tokens,
            num_failed_rows=self._num_failed_rows,
            num_prefix_lookup_tokens=scheduler.prefixes.num_lookup_tokens,
            num_prefix_hit_tokens=scheduler.prefixes.num_hit_tokens,
            limits=RunLimits(
                max_num_seqs=scheduler.max_num_seqs,
                max_prefill_tokens=scheduler.max_prefill_tokens,
                num_threads=self._backend.num_threads,
            ),
            num_sessions=scheduler.sessions.num_sessions,
            num_session_tokens=scheduler.sessions.num_tokens,
            step_s=self._shares.step_s,
            shares=self._shares.totals(),
            last_step_s=self._last_step_s,
            slots=self.adapters.statuses(),
            memory=self._memory,
        )

    def _note_step(self, plan: StepPlan, now_s: float) -> None:
        for chunk in plan.chunks:
            generation = self._generations.of(chunk.sequence)
            if generation.note_step(now_s, len(plan.chunks)):
                self._generations.tell(generation, Admitted())

    def _row(self, chunk: ScheduledChunk) -> Row:
        sequence = chunk.sequence
        return Row(
            self._digests(sequence.slot_weights),
            chunk.num_tokens,
            is_prompt=sequence.is_prefilling,
            has_output=chunk.needs_logits,
        )

    def _digests(self, weights: Sequence[SlotWeight]) -> tuple[str, ...]:
        slots = self._scheduler.slots.slots
        return tuple([slots[each.slot].digest or "" for each in weights])

    def _divide(self, step_s: float, chunks: list[ScheduledChunk], rows: list[Row]) -> None:
        """Divides the step's time over its rows, and cuts those that failed in it."""
        row_times_s = self._shares.divide(step_s + self._undivided_s, rows)
        for chunk, row_s in zip(chunks, row_times_s, strict=False):  # behind them is a canary's
            chunk.sequence.engine_s += row_s
        failed, self._failed = self._failed, []
        for chunk, error in failed:
            self._fail_row(chunk, error)
        for chunk in chunks:
            generation = self._generations.find(chunk.sequence.sequence_id)
            work = generation.take_work() if generation is not None else None
            if generation is not None and work is not None:
                self._generations.tell(generation, work)

    def _forward_with_proof(
        self, chunks: list[ScheduledChunk], rows: list[Row]
    ) -> tuple[list[ScheduledChunk], NDArray[np.float32]]:
        """Runs chunks, and with them the canary of an adapter that waits for its proof.

        A proof adds a row to those of the chunks, also where it ran before them.
        """
        proofs = self.adapters.proofs
        if proofs.next_digest is not None:
            digests, num_tokens = (proofs.next_digest,), self._num_canary_tokens
            rows.append(Row(digests, num_tokens, is_prompt=True, has_output=False))
        canary = proofs.begin(sum(chunk.num_tokens for chunk in chunks))
        if canary is None:
            return self._forward(chunks)
        try:
            logits = self._backend.forward([*map(_to_backend, chunks), canary])
        except Exception as error:  # noqa: BLE001 - whichever failed must not take the others along
            get_logger().error("forward_with_proof_failed", error=type(error).__name__)
            proofs.run_alone()
            return self._forward(chunks)
        proofs.end(logits[-1:])
        return self._note_forward(chunks), logits[:-1]

    def _forward(
        self, chunks: list[ScheduledChunk]
    ) -> tuple[list[ScheduledChunk], NDArray[np.float32]]:
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
                self._failed.append((chunks[0], InternalError("the model failed")))
                return [], np.empty((0, 0), dtype=np.float32)
            parts = [self._forward([chunk]) for chunk in chunks]
            rows = [logits for _, logits in parts if len(logits)]
            finished = [chunk for finished, _ in parts for chunk in finished]
            return finished, np.concatenate(rows) if rows else np.empty((0, 0), np.float32)
        return self._note_forward(chunks), logits

    def _note_forward(self, chunks: list[ScheduledChunk]) -> list[ScheduledChunk]:
        """Notes that chunks have run; returns those that reached their newest token."""
        finished = [chunk for chunk in chunks if chunk.needs_logits]
        for chunk in chunks:
            sequence = chunk.sequence
            start, end = sequence.num_cached_tokens, sequence.num_cached_tokens + chunk.num_tokens
            self._num_recomputed_tokens += max(0, min(end, sequence.num_computed_tokens) - start)
            sequence.num_computed_tokens = max(end, sequence.num_computed_tokens)
            sequence.num_cached_tokens = end
            self._scheduler.prefixes.publish(sequence)
        return finished

    def _choose_tokens(
        self, chunks: list[ScheduledChunk], logits: NDArray[np.float32]
    ) -> tuple[list[ScheduledChunk], list[ChosenToken | None]]:
        """Returns chunks and their tokens, without those whose constraint broke: they are cut."""
        ready, rows = [], []
        for index, chunk in enumerate(chunks):
            try:
                rows.append(self._generations.of(chunk.sequence).sampler.next_row())
            except InvalidRequestError as error:
                self._fail_row(chunk, error)
            else:
                ready.append(index)
        if not ready:
            return [], []
        if len(ready) < len(chunks):
            chunks, logits = [chunks[index] for index in ready], logits[ready]
        return chunks, self._choose(logits, rows)

    def _accept(
        self,
        chunks: list[ScheduledChunk],
        chosen_tokens: list[ChosenToken | None],
        now_s: float,
    ) -> None:
        for chunk, chosen in zip(chunks, chosen_tokens, strict=True):
            generation = self._generations.of(chunk.sequence)
            if chosen is None:
                get_logger().error("row_has_no_token", digests=generation.sequence.digests)
                self._fail_row(chunk, InternalError("the model's output was not a number"))
                continue
            try:
                reason = generation.accept(chosen, now_s)
            except InvalidRequestError as error:
                self._fail_row(chunk, error)
                continue
            self._num_output_tokens += 1
            self._send_delta(generation, now_s, is_urgent=reason is not None)
            if reason is not None:
                if not self.adapters.are_deleted(chunk.sequence.digests):
                    self._scheduler.keep_session(chunk.sequence, now_s)
                self._generations.end(generation, generation.completed(reason, now_s))

    def _choose(
        self, logits: NDArray[np.float32], rows: Sequence[RowSampling]
    ) -> list[ChosenToken | None]:
        """Samples rows together, or each alone when that fails; None for those that fail."""
        try:
            return self._backend.sample(logits, rows)
        except Exception as error:  # noqa: BLE001 - one bad row must not end the others
            get_logger().error("sampling_failed", error=type(error).__name__, num_rows=len(rows))
            if len(rows) == 1:
                return [None]
            parts = [self._choose(logits[[n]], [row]) for n, row in enumerate(rows)]
            return [chosen for part in parts for chosen in part]

    def _send_delta(self, generation: Generation, now_s: float, *, is_urgent: bool) -> None:
        delta = generation.take_delta(now_s, is_urgent=is_urgent)
        if delta is not None:
            self._generations.tell(generation, delta)

    def _fail_row(self, chunk: ScheduledChunk, error: EdgeLoraError) -> None:
        self._num_failed_rows += 1
        self._scheduler.prefixes.withdraw(chunk.sequence)
        self._generations.fail(self._generations.of(chunk.sequence), error)


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
