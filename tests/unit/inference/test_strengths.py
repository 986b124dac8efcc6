"""Which strengths a token runs with, after changes on the way."""

import pytest

from services.inference.backends.base import SlotWeight
from services.inference.engine.sequence import AdapterUse, Sequence
from services.inference.engine.strengths import StrengthChanges


def sequence_of(*weights, tokens=10):
    made = Sequence(
        sequence_id=0,
        token_ids=[1] * tokens,
        adapters=tuple(AdapterUse(str(n), weight) for n, weight in enumerate(weights)),
    )
    made.take_slots(tuple(range(5, 5 + len(weights))))
    return made


def run(sequence, num_tokens):
    sequence.num_cached_tokens += num_tokens
    sequence.num_computed_tokens = max(sequence.num_computed_tokens, sequence.num_cached_tokens)


def test_each_token_has_the_strengths_of_its_time():
    changes = StrengthChanges()
    changes.add(4, (0.5,), (1.0,))
    changes.add(9, (0.0,), (1.0,))
    assert [changes.at(position, (1.0,)) for position in (0, 3, 4, 8, 9, 99)] == [
        (1.0,),
        (1.0,),
        (0.5,),
        (0.5,),
        (0.0,),
        (0.0,),
    ]
    assert [changes.next_start(position) for position in (0, 3, 4, 8, 9)] == [4, 4, 9, 9, None]
    assert (changes.first_start, changes.newest((1.0,))) == (4, (0.0,))


def test_of_changes_before_the_next_token_the_last_counts():
    changes = StrengthChanges()
    for weight in (0.1, 0.7, 0.3):
        changes.add(4, (weight,), (1.0,))
    assert changes.at(4, (1.0,)) == (0.3,)
    changes.add(4, (1.0,), (1.0,))
    assert not changes  # as it was
    assert changes.newest((1.0,)) == (1.0,)


def test_before_the_first_token_it_is_as_if_it_had_been_asked_for_so():
    sequence = sequence_of(1.0)
    sequence.block_keys = [b"of other strengths"]
    sequence.set_strength("0", 0.5)
    assert sequence.adapters == (AdapterUse("0", 0.5),)
    assert sequence.block_keys == []
    assert not sequence.changes
    assert sequence.num_shareable_tokens == 10


def test_a_change_parts_what_has_run_from_what_has_not():
    sequence = sequence_of(1.0, 2.0)
    run(sequence, 6)
    sequence.set_strength("1", 0.25)
    assert sequence.uses == (AdapterUse("0", 1.0), AdapterUse("1", 0.25))
    assert sequence.slot_weights == (SlotWeight(5, 1.0), SlotWeight(6, 0.25))
    assert (sequence.num_shareable_tokens, sequence.num_uniform_tokens) == (6, 4)
    sequence.num_cached_tokens = 0  # preempted: everything runs again as it did
    assert sequence.slot_weights == (SlotWeight(5, 1.0), SlotWeight(6, 2.0))
    assert sequence.num_uniform_tokens == 6
    sequence.set_strength("0", 0.0)  # nothing new has run since
    sequence.num_cached_tokens = 6
    assert sequence.slot_weights == (SlotWeight(6, 0.25),)
    assert sequence.num_uniform_tokens == 4


@pytest.mark.parametrize("num_left", [0, 4])
def test_a_change_at_tokens_that_were_only_found_gives_way_when_they_are_lost(num_left):
    sequence = sequence_of(1.0)
    sequence.num_cached_tokens = 8  # found in blocks of others, and none has run since
    sequence.set_strength("0", 0.5)
    sequence.num_cached_tokens = num_left  # preempted before a step, and fewer found again
    sequence.set_strength("0", 2.0)
    assert sequence.uses == (AdapterUse("0", 2.0),)
    seen = []
    for position in range(10):
        sequence.num_cached_tokens = position
        seen.append(sequence.slot_weights[0].weight)
    assert seen == [1.0] * num_left + [2.0] * (10 - num_left)
    assert sequence.num_shareable_tokens == (num_left or 10)


@pytest.mark.parametrize("num_run", [0, 3])
def test_strength_0_takes_no_part_and_may_rise_again(num_run):
    sequence = sequence_of(1.0)
    run(sequence, num_run)
    sequence.set_strength("0", 0.0)
    assert sequence.slot_weights == ()
    sequence.set_strength("0", 2.0)
    assert sequence.slot_weights == (SlotWeight(5, 2.0),)


def test_without_its_slots_nothing_runs():
    sequence = sequence_of(1.0)
    sequence.take_slots(())
    assert sequence.slot_weights == ()
