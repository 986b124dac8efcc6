"""What a step holds of which class, and what a sequence keeps that gives way."""

import pytest

from services.inference.engine.events import Completed
from services.inference.engine.prefill_budget import PrefillBudget
from services.inference.engine.run_limits import RunLimits
from services.inference.engine.sequence import Priority, Sequence, SequenceStatus
from tests.support.step_bench import StepBench, solo_text

PROMPT = [1, 2, 3, 4, 5]
LOWER = [Priority.BACKGROUND, Priority.BATCH]


def tokens_run(bench):
    """Runs a step; returns {sequence id: tokens}."""
    run = {}

    def note(chunks):
        for chunk in chunks:
            for sequence_id, sequence in bench.sequences.items():
                if sequence.block_table is chunk.block_table:
                    run[sequence_id] = len(chunk.token_ids)

    bench.backend.before_forward = note
    bench.step()
    bench.backend.before_forward = lambda chunks: None
    return run


@pytest.mark.parametrize("priority", LOWER)
def test_prompts_of_the_lower_classes_never_make_a_step_long(priority):
    bench = StepBench(num_blocks=32, budget=32, lower_prefill_tokens=6)
    one = bench.add([1] * 10, priority=priority, tenant_id=None)
    two = bench.add([2] * 10, priority=priority, tenant_id=None)
    assert tokens_run(bench) == {one: 6}
    assert tokens_run(bench) == {one: 4, two: 2}
    assert tokens_run(bench) == {one: 1, two: 6}


@pytest.mark.parametrize("priority", LOWER)
def test_a_step_with_an_interactive_prompt_has_nothing_of_the_lower_classes(priority):
    bench = StepBench(num_blocks=32, max_num_seqs=4, budget=8, lower_prefill_tokens=4)
    decoding = bench.add(PROMPT[:2], priority=priority, max_tokens=20)
    older = bench.add(PROMPT[:3], max_tokens=20)
    tokens_run(bench)
    tokens_run(bench)
    prompt = bench.add([3] * 9, priority=priority)
    assert tokens_run(bench) == {older: 1, decoding: 1, prompt: 4}
    urgent = bench.add([4] * 12, max_tokens=20)
    assert tokens_run(bench) == {older: 1, urgent: 7}
    assert tokens_run(bench) == {older: 1, urgent: 5}
    assert tokens_run(bench) == {older: 1, urgent: 1, decoding: 1, prompt: 4}


def test_a_step_full_of_rows_that_wait_still_has_the_interactive_prompt():
    bench = StepBench(num_blocks=32, max_num_seqs=4, budget=4)
    batch = [bench.add([n], priority=Priority.BATCH, max_tokens=20) for n in range(1, 4)]
    tokens_run(bench)
    urgent = bench.add([4] * 6, max_tokens=2)
    assert tokens_run(bench) == {urgent: 4}
    assert tokens_run(bench) == {urgent: 2}
    assert tokens_run(bench) == {urgent: 1} | dict.fromkeys(batch, 1)


@pytest.mark.parametrize(
    "room", [{"max_num_seqs": 1}, {"num_blocks": 10}, {"num_slots": 1}], ids=str
)
@pytest.mark.parametrize("priority", LOWER)
def test_a_sequence_that_gave_way_finds_its_output_again_and_ends_the_same_I4(room, priority):
    settings = {"num_blocks": 32, "num_slots": 2, "max_num_seqs": 3, "budget": 16} | room
    bench = StepBench(**settings)
    batch = bench.add(PROMPT, (1,), max_tokens=25, priority=priority)
    for _ in range(12):
        bench.step()
        bench.load_wanted()
    assert bench.sequences[batch].num_output_tokens > 5
    prompt = [7] * (30 if "num_blocks" in room else 5)
    urgent = bench.add(prompt, (2,), max_tokens=4)
    bench.step()
    bench.load_wanted()
    bench.step()  # proves the adapter
    bench.step()
    assert bench.sequences[batch].status is SequenceStatus.WAITING
    bench.run()
    assert bench.text(urgent) == solo_text(prompt, (2,), 4)
    assert bench.text(batch) == solo_text(PROMPT, (1,), 25)
    assert bench.end(batch).num_preemptions == 1
    num_recomputed = bench.loop.status().num_recomputed_tokens
    if "num_blocks" in room:
        assert num_recomputed > 4  # the urgent one needed the memory of some blocks
    else:
        assert num_recomputed < 4  # what was in its last block, which was not full
    bench.assert_at_rest()


def test_without_a_prefix_cache_what_gave_way_is_computed_again():
    bench = StepBench(max_num_seqs=1, prefix_caching=False)
    batch = bench.add(PROMPT, max_tokens=12, priority=Priority.BATCH)
    for _ in range(6):
        bench.step()
    bench.add(PROMPT, max_tokens=2)
    num_computed = bench.sequences[batch].num_cached_tokens
    bench.run()
    assert bench.text(batch) == solo_text(PROMPT, (), 12)
    assert bench.loop.status().num_recomputed_tokens == num_computed == 10


def test_an_interactive_request_does_not_wait_for_a_batch_requests_adapter_to_be_fetched():
    bench = StepBench(num_slots=1)
    batch = bench.add(PROMPT, (1,), priority=Priority.BATCH)
    bench.step()
    (late,) = bench.wanted
    bench.wanted.clear()
    urgent = bench.add(PROMPT, (2,))
    bench.step()
    assert [wanted.digest for wanted in bench.wanted] == ["2"]
    bench.load_wanted()
    bench.wanted.append(late)  # what was asked for first comes now, and nobody has a slot for it
    bench.load_wanted()
    bench.run()
    assert bench.text(urgent) == solo_text(PROMPT, (2,), 6)
    assert bench.text(batch) == solo_text(PROMPT, (1,), 6)
    assert bench.end(urgent).total_s < bench.end(batch).total_s
    assert bench.backend.loads == [0, 0]


def test_equals_leave_each_other_the_slots_they_fetch_for():
    bench = StepBench(num_slots=1)
    first = bench.add(PROMPT, (1,), priority=Priority.BATCH)
    second = bench.add(PROMPT, (2,), priority=Priority.BATCH)
    for _ in range(3):
        bench.clock.advance(10.0)
        bench.step()
    assert [wanted.digest for wanted in bench.wanted] == ["1"]
    bench.run()
    assert isinstance(bench.end(first), Completed) and isinstance(bench.end(second), Completed)


def test_fewer_seats_pause_the_youngest_of_the_lowest_class_and_no_interactive_request():
    bench = StepBench(num_blocks=32, max_num_seqs=6, budget=32)
    classes = [
        Priority.BATCH,
        Priority.BACKGROUND,
        Priority.INTERACTIVE,
        Priority.INTERACTIVE,
        Priority.BATCH,
    ]
    ids = [bench.add([n + 1] * 3, max_tokens=30, priority=each) for n, each in enumerate(classes)]
    for _ in range(3):
        bench.step()

    def seated(count):
        bench.loop.limit(RunLimits(max_num_seqs=count, max_prefill_tokens=32, num_threads=1))
        bench.step()
        return {each.sequence_id for each in bench.scheduler.seated}

    assert seated(6) == {0, 1, 2, 3, 4}
    assert seated(4) == {0, 1, 2, 3}
    assert seated(3) == {1, 2, 3}
    assert seated(1) == {2, 3}
    late = bench.add(PROMPT)
    assert seated(2) == {2, 3}
    assert seated(6) == {*ids, late}
    bench.run()
    for number, each in enumerate(ids):
        assert bench.text(each) == solo_text([number + 1] * 3, (), 30)
    bench.assert_at_rest()


def test_limits_bound_prompts_and_threads_and_are_told():
    bench = StepBench(num_blocks=32, budget=16)
    limits = RunLimits(max_num_seqs=2, max_prefill_tokens=3, num_threads=2)
    bench.loop.limit(limits)
    assert bench.loop.status().limits == limits
    assert bench.backend.num_threads == 2
    bench.add([1] * 9, max_tokens=4)
    bench.add([2] * 2, max_tokens=4)
    bench.add([3])
    assert [tokens_run(bench) for _ in range(4)] == [{0: 3}, {0: 3}, {0: 3}, {0: 1, 1: 2}]


@pytest.mark.parametrize(
    "share, expected",
    [(1.0, (16, 512, 8)), (0.5, (8, 256, 4)), (0.29, (4, 148, 2)), (1e-9, (1,) * 3)],
)
def test_shares_keep_at_least_one_of_each(share, expected):
    whole = RunLimits(max_num_seqs=16, max_prefill_tokens=512, num_threads=8)
    limits = whole.reduced(seqs=share, prefill=share, threads=share)
    assert (limits.max_num_seqs, limits.max_prefill_tokens, limits.num_threads) == expected


def test_a_share_of_a_round_number_is_not_one_less_for_its_rounding():
    whole = RunLimits(max_num_seqs=100, max_prefill_tokens=100, num_threads=100)
    assert whole.reduced(seqs=0.29, prefill=0.57, threads=0.58) == RunLimits(
        max_num_seqs=29, max_prefill_tokens=57, num_threads=58
    )


def test_a_turn_goes_before_an_interactive_prompt_with_no_more_than_its_share():
    urgent = Sequence(sequence_id=1, token_ids=[1] * 20)
    batch = Sequence(sequence_id=2, token_ids=[1] * 20, priority=Priority.BATCH)
    budget = PrefillBudget(16, 4, 16, [urgent, batch])
    assert budget.take(batch, 16) == 0
    batch.has_turn = True
    assert (budget.take(batch, 16), budget.take(urgent, 12)) == (4, 12)


def test_the_prompt_of_a_tenant_that_asks_now_and_then_does_not_wait_for_a_busy_one():
    bench = StepBench(num_blocks=64, max_num_seqs=8, budget=16)
    busy = [bench.add([n], max_tokens=20, tenant_id="busy") for n in (1, 2)]
    assert tokens_run(bench) == dict.fromkeys(busy, 1)
    prompt = bench.add([3] * 6, max_tokens=20, tenant_id="busy")
    light = bench.add([4] * 20, max_tokens=20, tenant_id="light")
    assert tokens_run(bench) == {light: 16}
    # Nobody is left out twice in a row, however long the other's prompt.
    assert tokens_run(bench) == dict.fromkeys(busy, 1) | {prompt: 6, light: 4}
    assert tokens_run(bench) == dict.fromkeys((*busy, prompt, light), 1)


def test_prompts_of_tenants_that_are_equally_busy_run_together():
    bench = StepBench(num_blocks=64, max_num_seqs=8, budget=16)
    prompts = [bench.add([n] * 4, max_tokens=2, tenant_id=f"tenant {n}") for n in (1, 2, 3)]
    assert tokens_run(bench) == dict.fromkeys(prompts, 4)


def test_prompts_of_a_busy_tenant_do_not_make_a_step_long_for_who_arrives_in_it():
    bench = StepBench(num_blocks=64, max_num_seqs=8, budget=32, tenant_prefill_tokens=6)
    alone = bench.add([1] * 20, max_tokens=20, tenant_id="busy")
    assert tokens_run(bench) == {alone: 20}
    others = [bench.add([n] * 5, max_tokens=20, tenant_id="busy") for n in (2, 3)]
    assert tokens_run(bench) == {alone: 1, others[0]: 5, others[1]: 1}
    assert tokens_run(bench) == {alone: 1, others[0]: 1, others[1]: 4}
