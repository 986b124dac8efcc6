"""Which texts the next step takes."""

import random

import numpy as np
import pytest

from services.inference.encoder.encoding import Encoding
from services.inference.encoder.text_queue import StepBudget, TextQueue
from services.inference.engine.sequence import Priority

BUDGET = StepBudget(max_step_tokens=100, lower_step_tokens=40, aging_s=10.0)


class Line:
    """A queue whose time the test makes."""

    def __init__(self, budget=BUDGET):
        self.queue = TextQueue(budget)
        self.now_s = 0.0
        self.count = 0

    def add(self, *lengths, priority=Priority.INTERACTIVE):
        encoding = Encoding(
            encoding_id=self.count,
            texts=tuple(np.zeros(length, np.int32) for length in lengths),
            adapters=(),
            wants_head=False,
            priority=priority,
            tenant_id="t",
            ticket=None,
            arrived_s=self.now_s,
        )
        self.count += 1
        self.queue.add(encoding)
        return encoding

    def step(self, is_ready=lambda each: True):
        """[(request, text)] of the next step; a second passes."""
        chosen = self.queue.choose(is_ready, self.now_s)
        self.now_s += 1.0
        return [(each.encoding.encoding_id, each.index) for each in chosen]


def test_texts_of_all_who_wait_share_a_step_up_to_its_tokens():
    line = Line()
    line.add(30, 30)
    line.add(30)
    line.add(30)
    assert line.step() == [(0, 0), (1, 0), (2, 0)]
    assert line.step() == [(0, 1)]
    assert line.step() == []


def test_a_request_of_many_texts_does_not_hold_up_one_that_came_later():
    line = Line()
    line.add(*[50] * 10)
    assert line.step() == [(0, 0), (0, 1)]
    line.add(50)
    assert line.step() == [(0, 2), (1, 0)]
    assert line.step() == [(0, 3), (0, 4)]


def test_what_had_no_room_is_first_in_the_next_step():
    line = Line()
    line.add(60)
    line.add(100)
    line.add(20)
    assert line.step() == [(0, 0), (2, 0)]
    line.add(60)
    assert line.step() == [(1, 0)]


def test_a_class_comes_after_all_of_the_better_ones_and_has_a_bound_of_its_own():
    line = Line()
    line.add(20, 20, 20, priority=Priority.BATCH)
    line.add(15, 15, priority=Priority.BACKGROUND)
    line.add(30)
    assert line.step() == [(2, 0), (1, 0), (1, 1)]
    assert line.step() == [(0, 0), (0, 1)]
    line.add(60, priority=Priority.BATCH)
    assert line.step() == [(0, 2)]
    assert line.step() == [(3, 0)]  # longer than the bound: alone of its kind


def test_requests_that_are_not_ready_are_passed_over():
    line = Line()
    line.add(10)
    line.add(10)
    assert line.step(lambda each: each.encoding_id == 1) == [(1, 0)]
    assert line.step() == [(0, 0)]


def test_one_overdue_request_of_a_lower_class_goes_first():
    line = Line()
    line.add(40, 40, priority=Priority.BATCH)
    line.add(40, priority=Priority.BACKGROUND)
    steps = []
    for _ in range(25):
        line.add(100)
        steps.append(line.step())
    lower = [(number, who) for number, step in enumerate(steps) for who in step if who[0] < 2]
    # The oldest first, then whoever is unserved for longest.
    assert [who for _, who in lower] == [(0, 0), (1, 0), (0, 1)]
    assert [number for number, _ in lower] == [10, 11, 20]
    assert all(len([who for who in step if who[0] < 2]) <= 1 for step in steps)


@pytest.mark.parametrize("seed", range(20))
def test_every_text_runs_once_in_order_and_nobody_starves(seed):
    rng = random.Random(seed)
    line = Line(StepBudget(max_step_tokens=64, lower_step_tokens=20, aging_s=5.0))
    requests, ran = [], []
    for number in range(400):
        if number < 100:
            lengths = [rng.randint(1, 64) for _ in range(rng.choice([1, 1, 1, 12]))]
            requests.append(line.add(*lengths, priority=rng.choice(list(Priority))))
        chosen = line.queue.choose(lambda each: True, line.now_s)
        line.now_s += 1.0
        assert sum(each.num_tokens for each in chosen) <= 64
        lower = [each for each in chosen if each.encoding.priority is not Priority.INTERACTIVE]
        assert len(lower) <= 1 or sum(each.num_tokens for each in lower) <= 20
        waiting = [each for each in requests if not each.is_started]
        assert chosen or not waiting
        ran += [(each.encoding.encoding_id, each.index) for each in chosen]
    for _ in range(2000):
        ran += line.step()
    assert len(ran) == len(set(ran)) == sum(len(each.texts) for each in requests)
    for request in requests:
        own = [index for who, index in ran if who == request.encoding_id]
        assert own == list(range(len(request.texts)))
