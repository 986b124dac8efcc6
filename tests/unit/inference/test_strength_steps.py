"""Strengths that change between two steps: what runs with which, and what is left for others."""

import pytest

from services.inference.backends.base import SlotWeight
from services.inference.engine.sequence import AdapterUse, Priority, SequenceStatus
from tests.support.step_bench import StepBench, changed_text, solo_text

PROMPT = list(range(1, 14))  # three full blocks and one token


def started(bench, prompt=PROMPT, adapters=(1,), **options):
    """A generation that has made its first tokens."""
    one = bench.add(prompt, adapters, **options)
    while bench.sequences[one].num_output_tokens < 3:
        bench.step()
        bench.load_wanted()
    return one


def strengths_seen(bench):
    """Keeps what every row of the next steps runs with."""
    seen = []
    bench.backend.before_forward = lambda chunks: seen.extend(chunk.adapters for chunk in chunks)
    return seen


def test_a_change_acts_from_the_next_step_on():
    bench = StepBench()
    one = started(bench, max_tokens=20)
    before = bench.sequences[one].token_ids[:]
    seen = strengths_seen(bench)
    assert bench.loop.set_strength(one, "1", 0.5) == (AdapterUse("1", 0.5),)
    bench.step()
    assert seen == [(SlotWeight(0, 0.5),)]
    bench.run()
    assert bench.sequences[one].token_ids[: len(before)] == before
    text = bench.text(one)
    unchanged = solo_text(PROMPT, (1,), 20)
    assert text[:3] == unchanged[:3]
    assert text[3:] != unchanged[3:]
    assert text == changed_text(bench.sequences[one])


def test_strength_0_is_the_base_on_what_was_there_and_the_slot_stays():
    bench = StepBench()
    one = started(bench, max_tokens=20)
    bench.loop.set_strength(one, "1", 0.0)
    seen = strengths_seen(bench)
    bench.step()
    assert seen == [()]
    assert bench.loop.status().num_adapter_references == 1
    bench.loop.set_strength(one, "1", 2.0)
    bench.step()
    assert seen[-1] == (SlotWeight(0, 2.0),)
    bench.run()
    assert bench.text(one) == changed_text(bench.sequences[one])


@pytest.mark.parametrize("where", ["waiting", "loading", "no step yet"])
def test_before_the_first_token_it_is_as_if_it_had_been_asked_for_so(where):
    bench = StepBench()
    one = bench.add(PROMPT, (1,), session="s")
    if where != "waiting":
        bench.step()
    if where == "no step yet":
        bench.load_wanted()
    bench.loop.set_strength(one, "1", 0.0)
    bench.run()
    assert bench.text(one) == solo_text(PROMPT, (), 6)
    assert bench.loop.status().num_sessions == 1
    base = bench.add(PROMPT)
    bench.run()
    assert bench.end(base).num_cached_prompt_tokens == 12  # it was the base model's work


def test_a_change_in_the_middle_of_a_prompt_parts_it():
    bench = StepBench(budget=6)
    one = bench.add(PROMPT, (1,))
    bench.step()
    bench.load_wanted()
    while not bench.sequences[one].num_cached_tokens:
        bench.step()
    assert bench.sequences[one].num_cached_tokens == 6
    bench.loop.set_strength(one, "1", 0.25)
    bench.run()
    assert bench.text(one) == changed_text(bench.sequences[one])
    again = bench.add(PROMPT, (1,))
    bench.run()
    assert bench.end(again).num_cached_prompt_tokens == 4  # of what ran before the change
    assert bench.text(again) == solo_text(PROMPT, (1,), 6)


def test_what_runs_after_a_change_is_found_by_nobody_and_kept_for_no_session_X03():
    bench = StepBench(num_blocks=64)
    one = started(bench, max_tokens=12, session="s")
    bench.loop.set_strength(one, "1", 0.5)
    bench.run()
    assert bench.loop.status().num_sessions == 0
    following = [*bench.sequences[one].token_ids, 7]
    for weight, num_cached in ((1.0, 12), (0.5, 0)):
        two = bench.add(following, (1,))
        bench.sequences[two].adapters = (AdapterUse("1", weight),)
        bench.run()
        assert bench.end(two).num_cached_prompt_tokens == num_cached
        assert bench.text(two) == changed_text(bench.sequences[two])


def test_changed_and_changed_back_before_a_token_is_not_changed():
    bench = StepBench()
    one = started(bench, max_tokens=12, session="s")
    for weight in (0.5, 0.0, 1.0):
        bench.loop.set_strength(one, "1", weight)
    bench.run()
    assert bench.text(one) == solo_text(PROMPT, (1,), 12)
    assert bench.loop.status().num_sessions == 1


@pytest.mark.parametrize("budget", [3, 8, 64])
def test_who_was_preempted_runs_every_token_again_with_its_own_strength(budget):
    bench = StepBench(max_num_seqs=1, budget=budget)
    one = started(bench, max_tokens=16, priority=Priority.BATCH)
    for weight in (0.5, 2.0, 0.0, 1.0):
        bench.loop.set_strength(one, "1", weight)
        bench.step()
    rival = bench.add([50] * 9, (2,))
    bench.step()
    assert bench.sequences[one].status is SequenceStatus.WAITING
    bench.loop.set_strength(one, "1", 0.75)  # of the next new token, not of those run again
    bench.run()
    assert bench.end(one).num_preemptions == 1
    assert bench.text(one) == changed_text(bench.sequences[one])
    assert bench.text(one)[:3] == solo_text(PROMPT, (1,), 3)
    assert bench.text(rival) == solo_text([50] * 9, (2,), 6)
    bench.assert_at_rest()


def test_each_of_several_adapters_has_its_own():
    bench = StepBench()
    one = started(bench, adapters=(1, 2), max_tokens=20)
    uses = bench.loop.set_strength(one, "2", 0.5)
    assert uses == (AdapterUse("1", 1.0), AdapterUse("2", 0.5))
    bench.step()
    assert bench.loop.set_strength(one, "1", 0.0) == (AdapterUse("1", 0.0), AdapterUse("2", 0.5))
    bench.run()
    assert bench.text(one) == changed_text(bench.sequences[one])


def test_a_thousand_changes_in_a_row_leave_one_for_each_token():
    bench = StepBench(num_blocks=64)
    one = started(bench, max_tokens=60)
    for count in range(1000):
        bench.loop.set_strength(one, "1", count % 200 / 100)
        if count % 25 == 24:
            bench.step()
    assert len(bench.sequences[one].changes._starts) <= 40
    bench.run()
    assert bench.text(one) == changed_text(bench.sequences[one])


def test_unknown_ended_and_foreign_adapters_change_nothing():
    bench = StepBench()
    one = started(bench, max_tokens=4)
    assert bench.loop.set_strength(one, "2", 0.5) is None
    assert bench.loop.set_strength(99, "1", 0.5) is None
    bench.run()
    assert bench.loop.set_strength(one, "1", 0.5) is None
    assert bench.text(one) == solo_text(PROMPT, (1,), 4)
