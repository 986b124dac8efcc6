"""Placement: affinity within a load bound."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.placement import WorkerLoad, choose_worker


def load(name, num_running, max_running=4, num_free=None):
    if num_free is None:
        num_free = max_running - num_running
    return WorkerLoad(
        name=name, num_running=num_running, max_running=max_running, num_free=num_free
    )


def test_the_worker_that_holds_most_of_the_adapters():
    workers = [load("a", 0), load("b", 1), load("c", 1)]
    assert choose_worker(workers, {"b": 1, "c": 2}, load_factor=3.0) == "c"


def test_the_least_loaded_when_nobody_holds_any():
    assert choose_worker([load("a", 2), load("b", 1)], {}, load_factor=1.25) == "b"


def test_an_overloaded_holder_is_passed_over():
    workers = [load("holder", 3), load("idle", 0)]
    assert choose_worker(workers, {"holder": 4}, load_factor=1.25) == "idle"


def test_a_full_holder_is_passed_over():
    workers = [load("holder", 4), load("other", 3)]
    assert choose_worker(workers, {"holder": 4}, load_factor=10.0) == "other"


def test_a_full_worker_under_the_bound_leaves_any_place_to_be_taken():
    workers = [load("small", 1, 1), load("large", 3, 8)]
    assert choose_worker(workers, {"small": 4}, load_factor=1.0) == "large"


def test_no_place_no_worker():
    assert choose_worker([load("a", 4), load("b", 4)], {"a": 1}, load_factor=1.25) is None
    assert choose_worker([], {}, load_factor=1.25) is None


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=6),
    st.floats(1.0, 3.0),
)
def test_a_choice_has_a_place_and_keeps_the_load_bound(states, load_factor):
    workers = [load(f"w{index}", running, 8) for index, (running, _) in enumerate(states)]
    resident = {f"w{index}": held for index, (_, held) in enumerate(states)}
    name = choose_worker(workers, resident, load_factor=load_factor)
    if all(worker.num_running == 8 for worker in workers):
        assert name is None
        return
    chosen = next(worker for worker in workers if worker.name == name)
    assert chosen.num_free
    total = sum(worker.num_running for worker in workers) + 1
    assert chosen.num_running + 1 <= math.ceil(load_factor * total / len(workers))
