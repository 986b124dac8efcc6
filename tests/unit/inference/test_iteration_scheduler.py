"""What runs in a step, and who has to wait or give way."""

from services.inference.engine.adapter_slots import AdapterSlots
from services.inference.engine.iteration_scheduler import IterationScheduler, StepLimits
from services.inference.engine.kv_blocks import KvBlockPool
from services.inference.engine.prefix_cache import PrefixCache
from services.inference.engine.sequence import AdapterUse, Priority, Sequence, SequenceStatus
from services.inference.engine.sessions import SessionLimits, Sessions


class Bench:
    """A scheduler, and a model that only counts."""

    def __init__(
        self,
        *,
        num_blocks=64,
        num_slots=2,
        max_num_seqs=4,
        budget=16,
        patience_s=2.0,
        now_s=0.0,
        **limits,
    ):
        blocks = KvBlockPool(num_blocks, 4)
        self.scheduler = IterationScheduler(
            StepLimits(
                max_num_seqs=max_num_seqs,
                max_num_batched_tokens=budget,
                slot_patience_s=patience_s,
                **limits,
            ),
            blocks,
            AdapterSlots(num_slots),
            PrefixCache(blocks, "sha256:base"),
            Sessions(blocks, SessionLimits()),
        )
        self.now_s = now_s
        self.next_id = 0

    def add(self, num_tokens=4, adapters="", priority=Priority.INTERACTIVE):
        sequence = Sequence(
            sequence_id=self.next_id,
            token_ids=list(range(num_tokens)),
            adapters=tuple(AdapterUse(digest, 1.0) for digest in adapters),
            priority=priority,
        )
        self.next_id += 1
        self.scheduler.add(sequence, self.now_s)
        return sequence

    def step(self, loads=True):
        """Schedules and runs a step; returns {sequence id: tokens run}."""
        plan = self.scheduler.schedule(self.now_s)
        for chunk in plan.chunks:
            sequence = chunk.sequence
            is_complete = chunk.needs_logits
            sequence.num_cached_tokens += chunk.num_tokens
            if is_complete:
                sequence.token_ids.append(0)
        if loads:
            for claim in plan.claims:
                self.scheduler.slots.mark_resident(claim.digest, 1, 0.0)
        return {chunk.sequence.sequence_id: chunk.num_tokens for chunk in plan.chunks}

    def finish(self, sequence):
        self.scheduler.remove(sequence, self.now_s)


def test_prefill_and_decode_share_a_step():
    bench = Bench()
    bench.add(4)
    assert bench.step() == {0: 4}
    bench.add(6)
    assert bench.step() == {0: 1, 1: 6}


def test_long_prompts_are_cut_to_the_budget():
    bench = Bench(budget=16)
    bench.add(4)
    bench.step()
    bench.add(40)
    assert [bench.step() for _ in range(4)] == [
        {0: 1, 1: 15},
        {0: 1, 1: 15},
        {0: 1, 1: 10},
        {0: 1, 1: 1},
    ]


def test_interactive_prompts_go_before_background_ones():
    bench = Bench(budget=8)
    bench.add(20, priority=Priority.BACKGROUND)
    assert bench.step() == {0: 8}
    bench.add(10, priority=Priority.INTERACTIVE)
    assert bench.step() == {1: 8}
    assert bench.step() == {1: 2}
    assert bench.step() == {1: 1, 0: 7}


def test_no_more_sequences_than_seats():
    bench = Bench(max_num_seqs=2)
    for _ in range(3):
        bench.add(4)
    assert set(bench.step()) == {0, 1}
    assert len(bench.scheduler.waiting) == 1


def test_an_interactive_request_takes_the_seat_of_the_youngest_batch_request():
    bench = Bench(max_num_seqs=2)
    first = bench.add(4, priority=Priority.BATCH)
    second = bench.add(4, priority=Priority.BATCH)
    bench.step()
    third = bench.add(4)
    assert set(bench.step()) == {2}
    assert set(bench.step()) == {0, 2}
    assert second.status is SequenceStatus.WAITING
    assert second.num_preemptions == 1
    bench.finish(third)
    assert bench.step() == {0: 1, 1: 5}  # recomputed: four prompt tokens and one of output
    assert first.num_preemptions == 0


def test_equals_do_not_take_each_others_seats():
    bench = Bench(max_num_seqs=1)
    bench.add(4)
    bench.step()
    bench.add(4)
    assert bench.step() == {0: 1}


def test_admission_waits_for_free_blocks_and_keeps_arrival_order():
    bench = Bench(num_blocks=8)  # 32 tokens
    bench.add(20)
    bench.step()
    bench.step()
    large = bench.add(12)
    small = bench.add(4)
    bench.step()
    assert not large.block_table
    assert not small.block_table  # must not overtake: large would never be served
    bench.finish(bench.scheduler.seated[0])
    assert set(bench.step()) == {1, 2}


def test_when_blocks_run_out_the_youngest_of_the_lowest_class_starts_over():
    bench = Bench(num_blocks=4, budget=16)  # 16 tokens
    old = bench.add(7, priority=Priority.BACKGROUND)
    young = bench.add(4, priority=Priority.BACKGROUND)
    for _ in range(2):
        bench.step()
    while not young.num_preemptions:
        bench.step()
    assert old.num_preemptions == 0
    assert young.num_cached_tokens == 0
    assert young.block_table == []
    bench.finish(old)
    assert bench.step() == {1: len(young.token_ids) - 1}


def test_removing_frees_everything_from_any_state():
    bench = Bench(max_num_seqs=2, num_slots=1)
    sequences = [bench.add(6, "a"), bench.add(6, "b"), bench.add(6)]
    bench.step(loads=False)
    bench.scheduler.slots.mark_resident("a", 1, 0.0)
    bench.step()
    statuses = {sequence.status for sequence in sequences}
    assert statuses == {SequenceStatus.RUNNING, SequenceStatus.WAITING}
    for sequence in sequences * 2:
        bench.finish(sequence)
    assert bench.scheduler.blocks.num_free == 64
    assert bench.scheduler.slots.num_references == 0
    assert bench.scheduler.seated == bench.scheduler.waiting == []


def test_a_loading_adapter_blocks_nobody_else():
    bench = Bench()
    bench.add(4, "a")
    bench.add(4)
    assert bench.step(loads=False) == {1: 4}
    bench.scheduler.slots.mark_resident("a", 1, 0.0)
    assert bench.step() == {0: 4, 1: 1}


def test_base_rows_need_no_slot_Q02():
    bench = Bench(num_slots=2)
    for adapter in ("a", "b", ""):
        bench.add(4, adapter)
    bench.step()
    assert set(bench.step()) == {0, 1, 2}
    bench.add(4, "c")  # no slot: waits, and the others go on
    bench.add(4, "a")
    bench.add(4, "")
    assert set(bench.step()) == {0, 1, 2, 4}
    assert len(bench.scheduler.slots.slots) == 2


def test_a_request_for_another_adapter_is_served_within_twice_the_patience_Q03():
    bench = Bench(num_slots=1, max_num_seqs=4, patience_s=2.0)
    running = [bench.add(4, "a") for _ in range(2)]
    bench.step()
    starved = bench.add(4, "b")
    served_at_s = None
    while served_at_s is None:
        bench.now_s += 0.1
        running.append(bench.add(4, "a"))  # more for the loaded adapter, without end
        if len(running) > 3:
            bench.finish(running.pop(0))
        if starved.sequence_id in bench.step():
            served_at_s = bench.now_s
        assert bench.now_s < 10
    assert served_at_s <= 2 * 2.0 + 0.5


def test_an_adapter_that_drains_takes_no_new_requests_but_its_running_ones_end():
    bench = Bench(num_slots=1, max_num_seqs=4, patience_s=2.0)
    first = bench.add(4, "a")
    bench.step()
    bench.step()
    bench.add(4, "b")
    bench.step()
    bench.now_s = 2.5
    bench.add(4, "a")
    assert set(bench.step()) == {0}
    assert first.num_preemptions == 0
    bench.finish(first)
    bench.step()
    assert set(bench.step()) == {1}


def test_running_long_requests_give_their_slot_up_after_twice_the_patience_Q03():
    bench = Bench(num_slots=1, patience_s=2.0)
    endless = bench.add(4, "a")
    bench.step()
    bench.step()
    bench.add(4, "b")
    bench.step()
    bench.now_s = 4.1
    bench.step()
    assert set(bench.step()) == {1}
    assert endless.num_preemptions == 1
    bench.now_s = 8.3
    bench.step()
    assert set(bench.step()) == {0}  # and gets it back the same way


def test_a_better_class_takes_a_slot_at_once():
    bench = Bench(num_slots=1)
    bench.add(4, "a", Priority.BATCH)
    bench.step()
    bench.step()
    bench.add(4, "b")
    bench.step()
    assert set(bench.step()) == {1}


def test_nobody_claims_a_slot_ahead_of_an_earlier_request():
    bench = Bench(num_slots=2)
    holder = bench.add(4, "a")
    other = bench.add(4, "b")
    bench.step()
    pair = bench.add(4, "cd")
    bench.add(4, "e")
    bench.step()
    bench.finish(holder)
    assert set(bench.step()) == {1}  # one slot is free: kept for the pair, not given to e
    bench.finish(other)
    bench.step()
    assert set(bench.step()) == {pair.sequence_id}


def test_alternating_requests_run_in_batches_by_adapter():
    bench = Bench(num_slots=1, max_num_seqs=4, patience_s=2.0)
    waiting = [bench.add(4, adapter) for adapter in "abababab"]
    num_loads, order = 0, []
    for _ in range(60):
        before = bench.scheduler.slots.find("a"), bench.scheduler.slots.find("b")
        bench.now_s += 0.01
        order += [n for n in bench.step() if n not in order]
        num_loads += (
            bench.scheduler.slots.find("a"),
            bench.scheduler.slots.find("b"),
        ) != before
        for sequence in [each for each in waiting if each.num_output_tokens >= 3]:
            waiting.remove(sequence)
            bench.finish(sequence)
    assert waiting == []
    assert num_loads == 2  # eight in order of arrival
    assert order == [0, 2, 4, 6, 1, 3, 5, 7]


def test_a_seatless_request_is_overtaken_for_no_longer_than_its_patience_Q03():
    bench = Bench(num_slots=1, max_num_seqs=2, patience_s=2.0)
    running = [bench.add(4, "a"), bench.add(4, "a")]
    bench.step()
    bench.step()
    starved = bench.add(4, "b")
    served_at_s = None
    while served_at_s is None:
        bench.now_s += 0.1
        running.append(bench.add(4, "a"))
        bench.finish(running.pop(0))
        if starved.sequence_id in bench.step():
            served_at_s = bench.now_s
        assert bench.now_s < 10
    assert served_at_s <= 3 * 2.0


def test_waits_for_slots_are_counted_once_each():
    bench = Bench(num_slots=1, max_num_seqs=4)
    first = bench.add(4, "a")
    bench.step()
    bench.add(4, "b")
    bench.add(4, "b")
    bench.add(4, "a")
    bench.add(4)
    for _ in range(5):
        bench.step()
    assert bench.scheduler.num_slot_waits == 2
    bench.finish(first)
    for _ in range(5):
        bench.step()
    assert bench.scheduler.num_slot_waits == 2


def test_all_slots_and_base_rows_with_cancels_and_a_full_cache_Q02():
    bench = Bench(num_slots=2, num_blocks=12, max_num_seqs=8, budget=16)
    sequences = [bench.add(4 + 9 * (n % 2), "ab"[n % 3] if n % 3 < 2 else "") for n in range(24)]
    kept = [sequence for n, sequence in enumerate(sequences) if n % 6 == 0]
    for n in range(200):
        bench.now_s += 0.05
        bench.step()
        if n < 20 and sequences[n] not in kept:
            bench.finish(sequences[n])
        for sequence in kept:
            if sequence.num_output_tokens >= 3:
                bench.finish(sequence)
    for sequence in kept:
        assert sequence.status is SequenceStatus.FINISHED
        assert sequence.num_output_tokens >= 3
