"""Decides what runs in the next step. Pure: the clock is passed in, the model is elsewhere.

Continuous batching as in Orca (OSDI 2022) with chunked prefill (Sarathi-Serve, arXiv 2403.02310):
every step holds one token of each decoding sequence and fills the rest of its token budget with
pieces of prompts, better classes first. What of the lower classes stays out of a step is decided in
prefill_budget.py, who has waited too long in aging.py. A sequence passes three gates, each in order
of class and arrival: a seat, its adapter slots, KV blocks for all its tokens. Whoever waits for
adapter slots blocks nobody who needs none.

While more adapters are wanted than there are slots, sequences whose adapters are in slots go
first, see adapter_batching.py. A sequence that cannot get its slots is served within a bound:
nobody behind it may claim a slot; after `slot_patience_s` the adapters soonest free take no new
sequences; after twice that, their sequences of the same or a lower class are preempted. Sequences
of a lower class are preempted at once wherever a better one lacks a seat, a slot or a block, and
when there are fewer seats than there were; interactive ones keep theirs to their end. Blocks held
for sessions (sessions.py) are given back before anybody is preempted for blocks.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

from services.inference.engine.adapter_batching import batch_by_adapter, wanted_digests
from services.inference.engine.adapter_slots import AdapterSlots, Claim, Eviction
from services.inference.engine.aging import Turns
from services.inference.engine.kv_blocks import KvBlockPool
from services.inference.engine.prefill_budget import PrefillBudget
from services.inference.engine.prefix_cache import PrefixCache
from services.inference.engine.sequence import Priority, Sequence, SequenceStatus
from services.inference.engine.sessions import Sessions

_WATERMARK_SHARE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """Bounds of one step, and how long a sequence may be kept out of it."""

    max_num_seqs: int
    max_num_batched_tokens: int
    lower_prefill_tokens: int = 64
    tenant_prefill_tokens: int = 64
    """Most prompt tokens of background and batch sequences."""
    slot_patience_s: float = 2.0
    aging_s: float = 15.0
    """How long a background or batch sequence goes unserved before it has a turn."""

    def __post_init__(self) -> None:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError("max_num_batched_tokens must be at least max_num_seqs")


@dataclass(frozen=True, slots=True)
class ScheduledChunk:
    """The next tokens of one sequence."""

    sequence: Sequence
    num_tokens: int

    @property
    def needs_logits(self) -> bool:
        """Whether it reaches the newest token, so that the next one can be sampled."""
        return self.num_tokens == self.sequence.num_uncached_tokens


@dataclass(slots=True)
class StepPlan:
    """What to do now: slots to empty and to fill first, then one batch."""

    chunks: list[ScheduledChunk] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)


class IterationScheduler:
    """Owns the queues, the KV blocks and the slot table."""

    def __init__(
        self,
        limits: StepLimits,
        blocks: KvBlockPool,
        slots: AdapterSlots,
        prefixes: PrefixCache,
        sessions: Sessions,
    ) -> None:
        self._limits = limits
        self.max_num_seqs = limits.max_num_seqs
        """May be lowered, and raised again to the limit."""
        self.max_prefill_tokens = limits.max_num_batched_tokens
        """The same of prompt tokens in one step."""
        self.blocks = blocks
        self.prefixes = prefixes
        self.sessions = sessions
        self.slots = slots
        self.waiting: list[Sequence] = []
        """Sorted by `Sequence.order`."""
        self.seated: list[Sequence] = []
        """LOADING and RUNNING sequences, sorted by `Sequence.order`."""
        self.num_slot_waits = 0
        """Sequences that had to wait for an adapter slot."""
        self._watermark = max(1, int(blocks.num_blocks * _WATERMARK_SHARE))
        self._turns = Turns(limits.aging_s)
        self._plan = StepPlan()
        self._has_deferred = False
        self._now_s = 0.0
        self._wanted: frozenset[str] = frozenset()

    def add(self, sequence: Sequence, now_s: float) -> None:
        """Queues a new sequence. It must fit into the pool and the slot table by itself."""
        sequence.unserved_since_s = now_s
        if sequence.session and sequence.tenant_id is not None:
            self.sessions.touch(sequence.tenant_id, sequence.session, now_s)
        bisect.insort(self.waiting, sequence, key=lambda each: each.order)

    def remove(self, sequence: Sequence, now_s: float) -> None:
        """Takes a sequence out and frees all it holds, wherever it is. Again is harmless."""
        if sequence.status is SequenceStatus.FINISHED:
            return
        if sequence.status is SequenceStatus.WAITING:
            self.waiting.remove(sequence)
        else:
            self._unseat(sequence, now_s)
        sequence.status = SequenceStatus.FINISHED

    def keep_session(self, sequence: Sequence, now_s: float) -> None:
        """Holds the blocks of a sequence whose answer is whole, if it belongs to a session.

        Not where its strengths were changed, as no later prompt could find them all, nor where the
        session was forgotten meanwhile.
        """
        if not sequence.session or sequence.tenant_id is None:
            return
        if sequence.changes or sequence.is_forgotten:
            return
        self.sessions.keep(
            sequence.tenant_id,
            sequence.session,
            self.prefixes.hold(sequence),
            sequence.digests,
            now_s,
        )

    def is_any_slot_wanted(self) -> bool:
        """Whether a waiting sequence has an adapter without a slot."""
        return not all(map(self._has_slots, self.waiting))

    def schedule(self, now_s: float) -> StepPlan:
        """Admits, preempts and fills one step."""
        self._plan = StepPlan()
        self._now_s = now_s
        if self._turns.update(chain(self.waiting, self.seated), now_s):
            self.waiting.sort(key=lambda each: each.order)
            self.seated.sort(key=lambda each: each.order)
        self._pause_excess()
        self._seat_waiting()
        self._allocate_prompts()
        self._fill_step()
        return self._plan

    def _pause_excess(self) -> None:
        while len(self.seated) > self.max_num_seqs:
            last = self.seated[-1]
            if last.precedence <= Priority.INTERACTIVE:
                return
            self._preempt(last)

    # Gate 1 and 2: a seat and the adapter slots.

    def _seat_waiting(self) -> None:
        if not self.waiting:
            return
        self._wanted = wanted_digests(self.waiting, self.seated)
        is_crowded = len(self._wanted) > self.slots.max_adapters
        blocked: Sequence | None = None
        draining: frozenset[str] = frozenset()
        for sequence in self._order_waiting(is_crowded):
            if not self._has_seat(sequence):
                break
            if sequence.adapters and blocked is not None:
                is_claiming = not self._has_slots(sequence)
                if is_claiming or not draining.isdisjoint(sequence.digests):
                    continue
            if sequence.adapters and not self._acquire_slots(sequence):
                blocked = sequence
                draining = self._draining_for(sequence)
                continue
            self._take_seat(sequence)
        if is_crowded:
            for sequence in self.waiting:
                if sequence.overtaken_since_s is None and not self._has_slots(sequence):
                    sequence.overtaken_since_s = self._now_s
                    self._count_slot_wait(sequence)

    def _order_waiting(self, is_crowded: bool) -> list[Sequence]:
        if not is_crowded:
            return list(self.waiting)
        return batch_by_adapter(
            self.waiting,
            self._has_slots,
            now_s=self._now_s,
            patience_s=self._limits.slot_patience_s,
        )

    def _has_slots(self, sequence: Sequence) -> bool:
        return all(self.slots.find(digest) is not None for digest in sequence.digests)

    def _count_slot_wait(self, sequence: Sequence) -> None:
        if not sequence.has_waited_for_slots:
            sequence.has_waited_for_slots = True
            self.num_slot_waits += 1

    def _has_seat(self, sequence: Sequence) -> bool:
        if len(self.seated) < self.max_num_seqs:
            return True
        return self.seated[-1].precedence > sequence.precedence

    def _take_seat(self, sequence: Sequence) -> None:
        if len(self.seated) >= self.max_num_seqs:
            self._preempt(self.seated[-1])
        self.waiting.remove(sequence)
        sequence.status = SequenceStatus.LOADING
        bisect.insort(self.seated, sequence, key=lambda each: each.order)

    def _acquire_slots(self, sequence: Sequence) -> bool:
        acquisition = self.slots.acquire(sequence.digests, self._now_s, self._wanted)
        if acquisition is None and self._preempt_slot_holders(sequence):
            acquisition = self.slots.acquire(sequence.digests, self._now_s, self._wanted)
        if acquisition is None:
            if sequence.slots_wanted_since_s is None:
                sequence.slots_wanted_since_s = self._now_s
            self._count_slot_wait(sequence)
            return False
        sequence.slots_wanted_since_s = sequence.overtaken_since_s = None
        sequence.take_slots(acquisition.slots)
        self._plan.evictions.extend(acquisition.evictions)
        self._plan.claims.extend(acquisition.claims)
        return True

    def _draining_for(self, sequence: Sequence) -> frozenset[str]:
        if self._blocked_s(sequence) < self._limits.slot_patience_s:
            return frozenset()
        holders = self.slots.soonest_free(sequence.digests)
        freed = self.slots.choose_freed(sequence.digests, holders)
        return frozenset(holders if freed is None else freed)

    def _blocked_s(self, sequence: Sequence) -> float:
        since = sequence.slots_wanted_since_s
        return 0.0 if since is None else self._now_s - since

    def _preempt_slot_holders(self, sequence: Sequence) -> bool:
        """Preempts whoever may be preempted for this sequence's slots, if that is enough."""
        holders: dict[str, list[Sequence]] = {}
        for holder in self.seated:
            for digest in holder.digests:
                holders.setdefault(digest, []).append(holder)
        takeable = [
            digest
            for digest in self.slots.soonest_free(sequence.digests)
            if all(
                holder.precedence > self._worst_kept(sequence, digest) for holder in holders[digest]
            )
        ]
        takeable.sort(key=lambda digest: (len(holders[digest]), digest))
        freed = self.slots.choose_freed(sequence.digests, takeable)
        for digest in freed or ():
            for holder in holders[digest]:
                self._preempt(holder)
        return bool(freed)

    def _worst_kept(self, sequence: Sequence, digest: str) -> float:
        """The worst precedence that a sequence's wait leaves in the slot of a digest."""
        if self.slots.is_resident(digest):
            is_overdue = self._blocked_s(sequence) >= 2 * self._limits.slot_patience_s
            return sequence.precedence - is_overdue
        # What is being written is there in a moment. What is still fetched may take long, but
        # equals that took it from each other would fetch for ever.
        return math.inf if self.slots.is_written(digest) else sequence.precedence

    # Gate 3: KV blocks for every token the sequence has so far.

    def _allocate_prompts(self) -> None:
        for sequence in list(self.seated):
            if sequence.status is not SequenceStatus.LOADING:
                continue
            if not all(self.slots.is_resident(digest) for digest in sequence.digests):
                continue
            sequence.take_forms(tuple(map(self.slots.form_of, sequence.digests)))
            shared = self.prefixes.take(sequence)
            num_blocks = self.blocks.blocks_for(len(sequence.token_ids)) - len(shared)
            if not self._make_blocks_free(sequence, num_blocks):
                self.blocks.free(shared)
                return
            self.prefixes.begin(sequence, shared)
            sequence.block_table = shared + self.blocks.allocate(num_blocks)
            sequence.status = SequenceStatus.RUNNING

    def _make_blocks_free(self, sequence: Sequence, num_blocks: int) -> bool:
        others = [each for each in self.seated if each.block_table]
        # Room for the others to grow; alone, a sequence may have everything.
        wanted = num_blocks + (self._watermark if others else 0)
        victims = [each for each in reversed(others) if each.precedence > sequence.precedence]
        tables = [each.block_table for each in victims]
        num_reachable = self.blocks.num_free + self.blocks.num_released_by(tables)
        if len(victims) == len(others):
            wanted = num_blocks
        if num_reachable + self.sessions.num_blocks < wanted:
            return False
        self.sessions.give_way(wanted)
        if self.blocks.num_free + self.blocks.num_released_by(tables) < wanted:
            return False
        for victim in victims:
            if self.blocks.num_free >= wanted:
                break
            self._preempt(victim)
        return True

    # The step itself.

    def _fill_step(self) -> None:
        running = [each for each in self.seated if each.status is SequenceStatus.RUNNING]
        prefill = PrefillBudget(
            self.max_prefill_tokens,
            self._limits.lower_prefill_tokens,
            self._limits.tenant_prefill_tokens,
            running,
            may_defer=not self._has_deferred,
        )
        room = self._limits.max_num_batched_tokens
        for sequence in running:
            is_decoding = not sequence.is_prefilling
            if is_decoding and prefill.has_place(sequence) and self._grow(sequence):
                room -= self._schedule(sequence, 1)
        for sequence in running:
            if sequence.status is SequenceStatus.RUNNING and sequence.is_prefilling:
                self.prefixes.extend(sequence)
                room -= self._schedule(sequence, prefill.take(sequence, room))
        self._has_deferred = prefill.has_deferred

    def _schedule(self, sequence: Sequence, num_tokens: int) -> int:
        if num_tokens:
            self._plan.chunks.append(ScheduledChunk(sequence, num_tokens))
            self._turns.note_served(sequence, self._now_s)
        return num_tokens

    def _grow(self, sequence: Sequence) -> bool:
        """Makes room for the newest token, preempting the youngest of the lowest class."""
        while sequence.status is SequenceStatus.RUNNING:
            if self.blocks.blocks_for(len(sequence.token_ids)) <= len(sequence.block_table):
                return True
            if self.sessions.give_way(1):
                sequence.block_table.extend(self.blocks.allocate(1))
                return True
            self._preempt(self._last_seated(lambda each: bool(each.block_table)))
        return False

    def _last_seated(self, condition: Callable[[Sequence], bool]) -> Sequence:
        return next(each for each in reversed(self.seated) if condition(each))

    def _preempt(self, sequence: Sequence) -> None:
        """Takes everything away; the sequence starts over from its tokens when its turn comes."""
        if sequence.status is SequenceStatus.WAITING:
            return
        had_run = sequence.num_cached_tokens > sequence.num_reused_tokens
        self._unseat(sequence, self._now_s)
        sequence.status = SequenceStatus.WAITING
        bisect.insort(self.waiting, sequence, key=lambda each: each.order)
        if had_run:
            sequence.num_preemptions += 1
            self._plan.preempted.append(sequence)

    def _unseat(self, sequence: Sequence, now_s: float) -> None:
        self.seated.remove(sequence)
        self.blocks.free(sequence.block_table)
        self.slots.release(sequence.digests, now_s)
        sequence.block_table = []
        sequence.take_slots(())
        sequence.num_cached_tokens = sequence.num_reused_tokens = 0
        sequence.num_published_blocks = 0
