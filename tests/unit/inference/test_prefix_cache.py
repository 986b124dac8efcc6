"""Who may use which computed blocks, and that it never changes an answer."""

import numpy as np
import pytest

from services.inference.engine.events import Completed, Failed
from services.inference.engine.fetched_adapter import FetchedAdapter
from services.inference.engine.prefix_cache import root_key
from services.inference.engine.sequence import AdapterUse, Priority, SequenceStatus
from tests.support.stand_in_backend import stand_in_weights
from tests.support.step_bench import BLOCK_SIZE, StepBench, fetched, solo_text

PROMPT = list(range(1, 14))  # three full blocks and one token
OTHER = list(range(60, 80))


def run(bench, prompt=PROMPT, adapters=(), **options):
    """Runs a generation alone; returns its text and the prompt tokens it found computed."""
    sequence_id = bench.add(prompt, adapters, **options)
    bench.run()
    end = bench.end(sequence_id)
    assert isinstance(end, Completed)
    return bench.text(sequence_id), end.num_cached_prompt_tokens


def test_the_same_prompt_again_is_found_and_answered_alike():
    bench = StepBench()
    assert run(bench) == (solo_text(PROMPT, (), 6), 0)
    assert run(bench) == (solo_text(PROMPT, (), 6), 12)
    status = bench.loop.status()
    assert (status.num_prefix_hit_tokens, status.num_prefix_lookup_tokens) == (12, 26)
    assert status.num_cached_kv_blocks == 4
    bench.assert_at_rest()


def test_the_newest_token_always_runs():
    bench = StepBench()
    prompt = PROMPT[:12]
    run(bench, prompt)
    assert run(bench, prompt) == (solo_text(prompt, (), 6), 8)


def test_only_what_is_alike_from_the_start_is_found():
    bench = StepBench()
    run(bench)
    other = [*PROMPT[:6], 90, *PROMPT[7:]]
    assert run(bench, other) == (solo_text(other, (), 6), 4)
    assert run(bench, PROMPT[1:]) == (solo_text(PROMPT[1:], (), 6), 0)


def test_an_answer_is_found_as_part_of_the_next_prompt():
    bench = StepBench()
    one = bench.add(PROMPT, max_tokens=8)
    bench.run()
    following = [*bench.sequences[one].token_ids, 7]
    assert run(bench, following) == (solo_text(following, (), 6), 20)


def test_what_runs_now_is_shared_too():
    bench = StepBench(num_blocks=32)
    one = bench.add(PROMPT, max_tokens=20)
    for _ in range(4):
        bench.step()
    two = bench.add(PROMPT, max_tokens=20)
    bench.step()
    first, second = bench.sequences[one].block_table, bench.sequences[two].block_table
    assert first[:3] == second[:3]
    assert not set(first[3:]) & set(second[3:])
    bench.run()
    assert bench.text(one) == bench.text(two) == solo_text(PROMPT, (), 20)
    bench.assert_at_rest()


def test_one_tenant_never_finds_what_another_one_left_T11_X01():
    bench = StepBench()
    run(bench, tenant_id="one")
    assert run(bench, tenant_id="two")[1] == 0
    assert run(bench, tenant_id="one")[1] == 12
    assert run(bench, tenant_id=None)[1] == 0
    assert run(bench, tenant_id=None)[1] == 0


def test_another_adapter_or_strength_finds_nothing_X01_X02_X03():
    bench = StepBench(num_slots=2, num_blocks=64)
    mixes = [(), (1,), (2,), (1, 2)]
    for _ in range(2):
        for adapters in mixes:
            assert run(bench, adapters=adapters)[0] == solo_text(PROMPT, adapters, 6)
    assert bench.loop.status().num_prefix_hit_tokens == 12 * len(mixes)
    weaker = bench.add(PROMPT, (1,))
    bench.sequences[weaker].adapters = (AdapterUse("1", 0.5),)
    bench.run()
    assert bench.end(weaker).num_cached_prompt_tokens == 0


def test_an_adapter_that_left_its_slot_finds_its_blocks_when_it_is_back():
    bench = StepBench(num_slots=1, num_blocks=64)
    texts = [run(bench, adapters=(adapter,)) for adapter in (1, 2, 1)]
    assert [cached for _, cached in texts] == [0, 0, 12]
    assert texts[0][0] == texts[2][0] == solo_text(PROMPT, (1,), 6)


def test_what_another_serving_form_of_an_adapter_computed_is_not_found():
    bench = StepBench(num_slots=1, num_blocks=64)
    found = []
    for weights in (1, 2, 1):
        one = bench.add(PROMPT, (1,))
        bench.step()
        (wanted,) = bench.wanted
        bench.wanted.clear()
        form = FetchedAdapter(stand_in_weights(weights), form=f"form {weights}")
        bench.loop.adapters.load(wanted.digest, form)
        bench.run()
        assert bench.text(one) == solo_text(PROMPT, (weights,), 6)
        found.append(bench.end(one).num_cached_prompt_tokens)
        run(bench, OTHER, adapters=(3,))  # takes the slot
    assert found == [0, 0, 12]


def test_a_hit_waits_for_its_adapter_like_everybody():
    bench = StepBench(num_slots=1, num_blocks=64)
    run(bench, adapters=(1,))
    run(bench, adapters=(2,))
    late = bench.add(PROMPT, (1,))
    assert bench.step() is False
    assert bench.sequences[late].block_table == []
    bench.loop.adapters.load("1", fetched(1, scale=0.0))
    bench.collect()
    assert isinstance(bench.end(late), Failed)


def test_every_identity_field_is_told_from_the_next():
    use = AdapterUse("a", 1.0)
    keys = [
        root_key("t", "b", (), ()),
        root_key("tb", "", (), ()),
        root_key('t", "b', "", (), ()),
        root_key("t", "b", (use,), ("",)),
        root_key("t", "b", (use,), ("f",)),
        root_key("t", "b", (AdapterUse("a", 0.5),), ("",)),
        root_key("t", "b", (AdapterUse("a", float(np.nextafter(1.0, 2.0))),), ("",)),
        root_key("t", "b", (use, AdapterUse("b", 1.0)), ("", "")),
        root_key("t", "b", (AdapterUse("b", 1.0), use), ("", "")),
    ]
    assert len(set(keys)) == len(keys)


def test_it_can_be_switched_off():
    bench = StepBench(prefix_caching=False)
    assert [run(bench)[1] for _ in range(2)] == [0, 0]
    status = bench.loop.status()
    assert (status.num_cached_kv_blocks, status.num_prefix_lookup_tokens) == (0, 0)


def test_cached_blocks_stand_in_nobodys_way():
    bench = StepBench(num_blocks=8)
    for first in range(1, 20):
        prompt = [first, *PROMPT]
        assert run(bench, prompt, max_tokens=18)[0] == solo_text(prompt, (), 18)
    assert bench.loop.status().num_preemptions == 0


def test_a_preempted_sequence_finds_its_own_blocks():
    bench = StepBench(num_blocks=32, max_num_seqs=1)
    batch = bench.add(PROMPT, max_tokens=20, priority=Priority.BATCH)
    for _ in range(8):
        bench.step()
    bench.add([50], max_tokens=2)
    bench.step()
    sequence = bench.sequences[batch]
    num_computed = len(sequence.token_ids) - 1
    assert sequence.num_preemptions == 1
    while sequence.block_table == []:
        bench.step()
    assert sequence.num_reused_tokens == num_computed // BLOCK_SIZE * BLOCK_SIZE > len(PROMPT)
    bench.run()
    assert bench.text(batch) == solo_text(PROMPT, (), 20)
    assert bench.end(batch).num_cached_prompt_tokens == 0


def test_shared_blocks_are_no_room_that_a_preemption_would_make():
    bench = StepBench(num_blocks=8)
    run(bench, max_tokens=1)
    keeper = bench.add(PROMPT, max_tokens=3)
    low = bench.add(PROMPT, max_tokens=2, priority=Priority.BATCH)
    bench.step()
    assert bench.loop.status().num_free_kv_blocks == 3
    urgent = bench.add(OTHER, max_tokens=2)
    bench.run()
    assert bench.end(low).num_preemptions == 0
    texts = [bench.text(sequence_id) for sequence_id in (keeper, low, urgent)]
    assert texts == [solo_text(PROMPT, (), 3), solo_text(PROMPT, (), 2), solo_text(OTHER, (), 2)]
    bench.assert_at_rest()


def test_one_that_only_found_blocks_was_not_preempted():
    bench = StepBench(num_blocks=12, budget=4)
    run(bench, max_tokens=1)
    bench.add(OTHER, max_tokens=1)
    late = bench.add(PROMPT, max_tokens=2, priority=Priority.BATCH)
    bench.step()
    assert len(bench.sequences[late].block_table) == 4
    bench.add(OTHER[::-1], max_tokens=1)
    bench.step()
    assert bench.sequences[late].block_table == []
    bench.run()
    assert bench.end(late).num_preemptions == 0
    assert bench.text(late) == solo_text(PROMPT, (), 2)


def test_requests_that_come_together_compute_their_common_start_once():
    bench = StepBench(num_blocks=64, max_num_seqs=8, budget=16)
    common = list(range(1, 41))
    prompts = [[*common, 50 + n] for n in range(6)]
    ids = [bench.add(prompt) for prompt in prompts]
    num_run = []
    bench.backend.before_forward = lambda chunks: num_run.append(
        sum(len(chunk.token_ids) for chunk in chunks if chunk.start_position < len(common))
    )
    bench.run()
    assert [bench.text(each) for each in ids] == [solo_text(prompt, (), 6) for prompt in prompts]
    cached = [bench.end(each).num_cached_prompt_tokens for each in ids]
    # The second one had begun beside the first.
    assert cached == [0, 33, 40, 40, 40, 40]
    assert sum(num_run) == len(common) + 7 + 1
    bench.assert_at_rest()


def test_what_was_computed_of_a_prompt_outlasts_its_preemption():
    bench = StepBench(num_blocks=32, max_num_seqs=1, budget=8)
    prompt = list(range(1, 31))
    batch = bench.add(prompt, priority=Priority.BATCH)
    bench.step()
    bench.step()
    bench.add([50], max_tokens=2)
    bench.step()
    sequence = bench.sequences[batch]
    assert sequence.status is SequenceStatus.WAITING
    while sequence.block_table == []:
        bench.step()
    assert sequence.num_reused_tokens == 16
    bench.run()
    assert bench.text(batch) == solo_text(prompt, (), 6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_blocks_of_a_row_that_went_wrong_are_not_offered_F31(value):
    bench = StepBench()

    def poison(chunks, logits):
        logits[:] = value

    bench.backend.edit_logits = poison
    failed = bench.add(PROMPT)
    bench.run()
    assert isinstance(bench.end(failed), Failed)
    bench.backend.edit_logits = lambda chunks, logits: None
    assert bench.loop.status().num_cached_kv_blocks == 0
    assert run(bench) == (solo_text(PROMPT, (), 6), 0)


def test_blocks_of_a_failed_forward_are_not_offered_F31():
    bench = StepBench(budget=4)

    def fail(chunks):
        if any(chunk.start_position >= 8 for chunk in chunks):
            raise RuntimeError

    bench.backend.before_forward = fail
    failed = bench.add(PROMPT)
    bench.run()
    assert isinstance(bench.end(failed), Failed)
    assert bench.loop.status().num_cached_kv_blocks == 0
    bench.assert_at_rest()
