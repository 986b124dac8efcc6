"""Turns: nobody of a lower class is starved, and they take a bounded share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.inference.engine.aging import PAUSE, TURN_TOKENS, Turns
from services.inference.engine.sequence import Priority, Sequence, SequenceStatus
from tests.support.step_bench import STEP_S, StepBench, solo_text

AGING_S = 2.0


def make(sequence_id, *, priority=Priority.BATCH, unserved_since_s=0.0):
    sequence = Sequence(sequence_id=sequence_id, token_ids=[1], priority=priority)
    sequence.unserved_since_s = unserved_since_s
    return sequence


def test_who_waits_longest_has_a_turn_once_it_has_waited_long_enough():
    turns = Turns(AGING_S)
    sequences = [make(0, unserved_since_s=0.3), make(1, unserved_since_s=0.2), make(2)]
    sequences[2].priority = Priority.INTERACTIVE
    assert turns.update(sequences, 2.1) is False
    assert turns.update(sequences, 2.2) is True
    assert [each.has_turn for each in sequences] == [False, True, False]
    assert sequences[1].order < sequences[2].order < sequences[0].order
    assert turns.update(sequences, 9.0) is False  # one at a time


def test_a_turn_lasts_for_a_number_of_tokens_and_is_followed_by_a_pause():
    turns = Turns(AGING_S)
    one, two = make(0), make(1)
    turns.update([one, two], 5.0)
    turns.note_served(one, 6.0)
    one.token_ids += [1] * (TURN_TOKENS - 1)
    assert turns.update([one, two], 7.0) is False
    one.token_ids.append(1)
    assert turns.update([one, two], 8.0) is True
    assert (one.has_turn, two.has_turn) == (False, False)
    pause_end_s = 8.0 + PAUSE * (8.0 - 6.0)
    assert turns.update([one, two], pause_end_s - 0.1) is False
    assert turns.update([one, two], pause_end_s) is True
    assert two.has_turn


def test_a_turn_ends_with_its_sequence_and_one_that_never_ran_costs_no_pause():
    turns = Turns(AGING_S)
    one, two = make(0), make(1)
    turns.update([one, two], 5.0)
    one.status = SequenceStatus.FINISHED
    assert turns.update([two], 5.0) is True
    assert two.has_turn


class Crowd:
    """Interactive requests without end, each for one of a few adapters."""

    def __init__(self, bench, size):
        self._bench = bench
        self._running = []
        self._size = size
        self._count = 0
        self.num_done = 0

    def fill(self):
        ended = [each for each in self._running if self._bench.end(each) is not None]
        self.num_done += len(ended)
        self._running = [each for each in self._running if each not in ended]
        while len(self._running) < self._size:
            self._count += 1
            prompt = [5 + self._count % 50] * 9
            adapters = ((), (1,), (2,))[self._count % 3]
            self._running.append(self._bench.add(prompt, adapters, max_tokens=5, tenant_id="crowd"))


@pytest.mark.parametrize(
    "room",
    [
        {"max_num_seqs": 2},
        {"max_num_seqs": 1},
        {"max_num_seqs": 8, "num_blocks": 12},
        {"max_num_seqs": 8, "num_slots": 2},
        {"max_num_seqs": 3, "prefix_caching": False},
        {"max_num_seqs": 15, "num_blocks": 96, "budget": 15},
    ],
    ids=str,
)
def test_batch_requests_end_under_interactive_load_without_end_within_the_stated_bound_Q03(room):
    settings = {"num_blocks": 32, "num_slots": 3, "budget": 8, "lower_prefill_tokens": 2} | room
    bench = StepBench(aging_s=AGING_S, **settings)
    crowd = Crowd(bench, size=12)
    batch = [
        bench.add([n + 60] * 6, ((), (3,))[n % 2], max_tokens=TURN_TOKENS + 8, priority=priority)
        for n, priority in enumerate([Priority.BATCH, Priority.BACKGROUND, Priority.BATCH])
    ]
    # A turn: loading, its tokens so far in twos, its new ones; the wait for an adapter that is
    # being written, and one step to see that it is over.
    num_turn_steps = 4 + (6 + TURN_TOKENS) // 2 + TURN_TOKENS
    turn_s = num_turn_steps * STEP_S
    bound_s = AGING_S + len(batch) * (1 + PAUSE) * turn_s
    longest_s, turn_steps, steps = 0.0, 0, 0
    while any(bench.end(each) is None for each in batch):
        crowd.fill()
        bench.step()
        bench.load_wanted()
        steps += 1
        left = [bench.sequences[each] for each in batch if bench.end(each) is None]
        turn_steps += any(each.has_turn for each in left)
        longest_s = max([longest_s, *(bench.clock() - each.unserved_since_s for each in left)])
        assert steps < 20_000
    assert AGING_S <= longest_s <= bound_s
    # Each of them needs two turns, and beside them everybody else goes on.
    assert turn_steps <= 2 * len(batch) * num_turn_steps
    assert crowd.num_done > 20
    for number, each in enumerate(batch):
        expected = solo_text([number + 60] * 6, ((), (3,))[number % 2], TURN_TOKENS + 8)
        assert bench.text(each) == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 3.0)), max_size=60))
def test_turns_take_a_quarter_of_the_time_at_most(events):
    turns = Turns(AGING_S)
    sequences = [make(n) for n in range(4)]
    now_s, served_s, first_s = 0.0, 0.0, None
    for number, passed_s in events:
        before = next((each for each in sequences if each.has_turn), None)
        now_s += passed_s
        turns.update(sequences, now_s)
        if before is not None and first_s is not None:
            served_s += passed_s
        current = next((each for each in sequences if each.has_turn), None)
        assert sum(each.has_turn for each in sequences) <= 1
        if current is None:
            continue
        if current is not before and first_s is not None:
            assert served_s <= (now_s - first_s) / (1 + PAUSE) + 1e-6
        first_s = now_s if first_s is None else first_s
        turns.note_served(current, now_s)
        current.token_ids += [1] * (TURN_TOKENS if number == 0 else number)
