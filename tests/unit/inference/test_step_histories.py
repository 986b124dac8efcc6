"""Random arrivals, cancels, loads and failures against a simple model: nothing leaks (I1, I5).

Classes are mixed: who gave way says the same in the end (I4), and nobody is starved.
"""

from operator import attrgetter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pytest import approx

from edgelora.errors import ServiceUnavailableError
from services.inference.engine.aging import PAUSE
from services.inference.engine.events import Completed, Failed
from services.inference.engine.run_limits import RunLimits
from services.inference.engine.sequence import AdapterUse, Priority, SequenceStatus
from services.inference.engine.sessions import SessionLimits
from tests.support.step_bench import BLOCK_SIZE, StepBench, changed_text, fetched

AGING_S = 4.0
WEIGHT = attrgetter("weight")

adapters_strategy = st.lists(st.integers(1, 4), max_size=2, unique=True).map(tuple)


class Histories(RuleBasedStateMachine):
    """A small engine under everything that can happen to it."""

    def __init__(self):
        super().__init__()
        self.bench = StepBench(
            num_blocks=8,
            num_slots=2,
            max_num_seqs=3,
            budget=6,
            min_residency_s=0.5,
            lower_prefill_tokens=3,
            aging_s=AGING_S,
            sessions=SessionLimits(
                max_per_tenant=2, tenant_share=0.5, total_share=0.75, max_age_s=20.0
            ),
        )
        self.turn = self.served_since_s = None
        self.pause_end_s = 0.0
        self.asked = []
        self.cancelled = set()

    @rule(
        token=st.integers(1, 3),
        length=st.integers(1, 16),
        adapters=adapters_strategy,
        max_tokens=st.integers(1, 12),
        priority=st.sampled_from(Priority),
        tenant_id=st.sampled_from(["one", "two", None]),
        session=st.sampled_from(["", "a", "b"]),
    )
    def add(self, token, length, adapters, max_tokens, priority, tenant_id, session):
        prompt = [token] * length
        sequence_id = self.bench.add(
            prompt,
            adapters,
            max_tokens=max_tokens,
            priority=priority,
            tenant_id=tenant_id,
            session=session,
        )
        self.asked.append(sequence_id)

    @rule(choice=st.integers(0, 5), weight=st.sampled_from([0.0, 0.5, 1.0]))
    def set_strength(self, choice, weight):
        scheduler = self.bench.scheduler
        adapted = [each for each in scheduler.seated + scheduler.waiting if each.adapters]
        if adapted:
            sequence = adapted[choice % len(adapted)]
            digest = sequence.digests[choice % len(sequence.digests)]
            uses = self.bench.loop.set_strength(sequence.sequence_id, digest, weight)
            assert AdapterUse(digest, weight) in uses

    @rule(choice=st.integers(0, 30))
    def set_strength_of_what_has_ended(self, choice):
        is_over = choice not in self.asked or self.bench.end(choice) or choice in self.cancelled
        digests = () if is_over else self.bench.sequences[choice].digests
        for adapter in map(str, range(1, 5)):
            if adapter not in digests:
                assert self.bench.loop.set_strength(choice, adapter, 1.0) is None

    @rule(tenant_id=st.sampled_from(["one", "two"]), session=st.sampled_from(["", "a", "b"]))
    def forget(self, tenant_id, session):
        self.bench.loop.forget(tenant_id, session)
        assert not self.bench.blocks.published_by(tenant_id, session) - self.session_blocks()

    def session_blocks(self):
        """The blocks that are held for sessions."""
        tenants = self.bench.scheduler.sessions._tenants.values()
        return {block for tenant in tenants for block in tenant.num_holds}

    @rule(choice=st.integers(0, 30))
    def cancel(self, choice):
        if choice in self.asked and self.bench.end(choice) is None:
            self.bench.loop.cancel(choice)
            self.cancelled.add(choice)

    @rule(count=st.integers(1, 4))
    def step(self, count):
        bench = self.bench
        for _ in range(count):
            having = [
                each
                for each in bench.scheduler.seated + bench.scheduler.waiting
                if each.has_turn and all(map(bench.slots.is_resident, each.digests))
            ]
            bench.backend.before_forward = self.check_classes
            bench.step()
            bench.backend.before_forward = lambda chunks: None
            for each in having:
                assert each.unserved_since_s == bench.clock() or not each.has_turn
            self.check_turns()

    @rule(max_num_seqs=st.integers(1, 3))
    def limit(self, max_num_seqs):
        self.bench.loop.limit(
            RunLimits(max_num_seqs=max_num_seqs, max_prefill_tokens=6, num_threads=1)
        )

    def check_classes(self, chunks):
        """What a step may hold: little of the lower classes, nothing beside an urgent prompt."""
        tables = [chunk.block_table for chunk in chunks]
        rows = [
            (each, len(chunks[tables.index(each.block_table)].token_ids))
            for each in self.bench.scheduler.seated
            if each.block_table and each.block_table in tables
        ]
        lower = [row for row in rows if row[0].priority is not Priority.INTERACTIVE]
        assert sum(count for each, count in lower if each.is_prefilling) <= 3
        urgent = any(e.is_prefilling and e.priority is Priority.INTERACTIVE for e, _ in rows)
        assert not urgent or all(each.has_turn for each, _ in lower)

    def check_turns(self):
        """One at a time, and when nobody has one and the pause is over nobody waits too long."""
        now_s, sequences = self.bench.clock(), self.bench.sequences.values()
        if self.turn is not None and not self.turn.has_turn:
            if self.served_since_s is not None:
                self.pause_end_s = now_s + PAUSE * (now_s - self.served_since_s)
            self.turn = self.served_since_s = None
        having = [each for each in sequences if each.has_turn]
        assert len(having) <= 1
        if having:
            (self.turn,) = having
            assert self.turn.priority is not Priority.INTERACTIVE
            if self.served_since_s is None and self.turn.unserved_since_s == now_s:
                self.served_since_s = now_s
        elif now_s >= self.pause_end_s:
            waits_s = [
                now_s - each.unserved_since_s
                for each in self.bench.scheduler.waiting + self.bench.scheduler.seated
                if each.priority is not Priority.INTERACTIVE
            ]
            assert max(waits_s, default=0.0) < AGING_S

    @rule(seconds=st.sampled_from([0.5, 3.0]))
    def wait(self, seconds):
        self.bench.clock.advance(seconds)

    @rule(outcome=st.sampled_from(["loads", "loads", "loads", "useless", "store away"]))
    def answer(self, outcome):
        if not self.bench.wanted:
            return
        wanted = self.bench.wanted.pop(0)
        if outcome == "store away":
            self.bench.loop.adapters.give_up(
                wanted.digest, wanted.ticket, ServiceUnavailableError("away")
            )
        else:
            scale = 1.0 if outcome == "loads" else 0.0
            weights = fetched(int(wanted.digest), scale=scale)
            self.bench.loop.adapters.load(wanted.digest, weights)
        self.bench.collect()

    @rule(adapter=st.integers(1, 4), evict=st.integers(0, 4), pinned=st.integers(0, 4))
    def warm_up(self, adapter, evict, pinned):
        self.bench.loop.adapters.set_pinned(frozenset({str(pinned)}))
        self.bench.loop.adapters.warm_up(str(adapter), str(evict), fetched(adapter))
        self.bench.collect()

    @rule(is_holding=st.booleans())
    def write(self, is_holding):
        """Ends the loads under way, and says whether the next ones take a while."""
        self.bench.loader.is_holding = is_holding
        self.bench.loader.finish_all()
        self.bench.collect()

    @rule(digests=st.sets(st.integers(1, 4), max_size=2))
    def delete(self, digests):
        self.bench.loop.adapters.set_deleted(frozenset(map(str, digests)))
        self.bench.loop.adapters.set_deleted(frozenset())
        self.bench.collect()

    @invariant()
    def everything_held_is_held_by_somebody(self):
        bench = self.bench
        seated = bench.scheduler.seated
        held = {block for sequence in seated for block in sequence.block_table}
        kept = self.session_blocks()
        assert len(held | kept) == bench.blocks.num_blocks - bench.blocks.num_free
        assert len(kept) == bench.scheduler.sessions.num_blocks <= 6
        for block in held:
            holders = [each for each in seated if block in each.block_table]
            assert len({each.tenant_id for each in holders}) == 1
            # An adapter of strength 0 from the start takes no part.
            assert len({tuple(filter(WEIGHT, each.adapters)) for each in holders}) == 1
        assert bench.slots.num_references == sum(len(each.adapters) for each in seated)
        assert len(seated) <= 3
        assert bench.slots.memory_bytes <= bench.slots.budget_bytes
        for sequence in bench.scheduler.waiting:
            assert sequence.status is SequenceStatus.WAITING
            assert sequence.block_table == [] and sequence.num_cached_tokens == 0
        for sequence in seated:
            assert len(sequence.block_table) * BLOCK_SIZE >= sequence.num_cached_tokens
            assert len(set(sequence.block_table)) == len(sequence.block_table)

    def teardown(self):
        self.write(is_holding=False)
        bench = self.bench
        for _ in range(1500):
            bench.clock.advance(0.5)
            has_run = bench.step()
            if not has_run and not bench.wanted and not bench.scheduler.waiting:
                break
            bench.load_wanted()
        bench.assert_at_rest()
        for sequence_id in self.asked:
            end = bench.end(sequence_id)
            if sequence_id in self.cancelled:
                assert end is None
                continue
            assert isinstance(end, Completed | Failed)
            if isinstance(end, Completed):
                assert bench.text(sequence_id) == changed_text(bench.sequences[sequence_id])
        shares = bench.loop.status().shares
        assert sum(share.step_s for share in shares) == approx(bench.loop.status().step_s)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
