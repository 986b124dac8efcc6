"""Loads ahead of use, references, and what is told of loads and evictions. Without threads."""

import numpy as np
import pytest

from edgelora.errors import AdapterRejectedError
from services.inference.engine.effect_check import EffectCheck
from services.inference.engine.events import Completed
from services.inference.engine.fetched_adapter import CanaryReference, FetchCost, FetchedAdapter
from tests.support.stand_in_backend import stand_in_weights
from tests.support.step_bench import StepBench, fetched, solo_text

PROMPT = [1, 2, 3, 4, 5]


def warm(bench, adapter, evict=None):
    bench.loop.adapters.warm_up(str(adapter), evict, fetched(adapter))
    bench.collect()


def test_a_load_ahead_of_use_is_used_without_a_fetch():
    bench = StepBench(num_slots=1)
    warm(bench, 1)
    assert bench.slots.is_resident("1")
    (load,) = bench.finished
    assert (load.digest, load.is_warm_up) == ("1", True)
    one = bench.add(PROMPT, (1,))
    bench.run()
    assert bench.text(one) == solo_text(PROMPT, (1,), 6)
    assert bench.end(one).adapter_load_s == 0.0
    assert len(bench.backend.loads) == 1


def test_a_load_ahead_of_use_displaces_no_request():
    bench = StepBench(num_slots=1)
    one = bench.add(PROMPT, (1,), max_tokens=20)
    bench.step()
    bench.load_wanted()
    bench.step()
    warm(bench, 2, evict="1")
    assert bench.slots.find("2") is None
    bench.run()
    assert isinstance(bench.end(one), Completed)
    waiting = bench.add(PROMPT, (3,))
    warm(bench, 2, evict="1")
    assert bench.slots.find("2") is None
    bench.run()
    assert isinstance(bench.end(waiting), Completed)
    warm(bench, 2, evict="3")
    assert bench.slots.is_resident("2")


def test_a_request_for_what_is_loaded_ahead_waits_for_that_load():
    bench = StepBench(num_slots=1)
    bench.loader.is_holding = True
    warm(bench, 1)
    one = bench.add(PROMPT, (1,))
    bench.step()
    assert bench.wanted == []
    bench.loader.finish_all()
    bench.run()
    assert bench.text(one) == solo_text(PROMPT, (1,), 6)
    (load,) = bench.finished
    assert load.is_warm_up is False


def test_what_was_fetched_ahead_serves_the_request_that_came_first():
    bench = StepBench(num_slots=1)
    one = bench.add(PROMPT, (1,))
    bench.step()
    warm(bench, 1)
    bench.wanted.clear()
    bench.run()
    assert isinstance(bench.end(one), Completed)
    assert len(bench.backend.loads) == 1


def test_a_load_ahead_that_nobody_used_is_told_as_wasted():
    bench = StepBench(num_slots=1)
    warm(bench, 1)
    bench.add(PROMPT, (2,))
    bench.run()
    bench.add(PROMPT, (3,))
    bench.run()
    assert [(each.digest, each.was_wasted) for each in bench.evictions] == [
        ("1", True),
        ("2", False),
    ]


def test_a_deleted_adapter_is_not_loaded_ahead():
    bench = StepBench()
    bench.loop.adapters.set_deleted(frozenset({"1"}))
    warm(bench, 1)
    assert bench.slots.find("1") is None
    assert bench.finished == []


def test_a_bad_adapter_loaded_ahead_is_refused_and_leaves_its_slot():
    bench = StepBench()
    bench.loop.adapters.warm_up("1", None, fetched(1, scale=0.0))
    bench.collect()
    assert bench.refused == ["1"]
    assert bench.slots.find("1") is None
    assert bench.evictions == []


def test_a_load_tells_what_it_took_and_how_large_it_is():
    bench = StepBench()
    bench.add(PROMPT, (1,))
    bench.step()
    cost = FetchCost(bytes_read=7, remote_s=0.25, fetch_s=0.5, check_s=0.125)
    bench.loop.adapters.load("1", FetchedAdapter(stand_in_weights(1), None, cost))
    bench.collect()
    (load,) = bench.finished
    assert load.cost == cost
    assert load.decode_s > 0
    assert load.prove_s > 0
    (status,) = bench.loop.status().slots
    assert status.size_bytes == bench.loop.status().adapter_bytes == 20


def test_pinned_adapters_leave_last():
    bench = StepBench(num_slots=2)
    for adapter in (1, 2):
        bench.add(PROMPT, (adapter,))
        bench.run()
    bench.loop.adapters.set_pinned(frozenset({"1"}))
    for adapter in (3, 4):
        bench.add(PROMPT, (adapter,))
        bench.run()
    assert [each.digest for each in bench.evictions] == ["2", "3"]


def test_a_small_budget_keeps_fewer_adapters_than_there_are_slots():
    bench = StepBench(num_slots=4, budget_bytes=120)  # one loading, and one of 20 bytes
    ids = [bench.add(PROMPT, (adapter,)) for adapter in (1, 2, 3, 4)]
    bench.run()
    assert all(isinstance(bench.end(each), Completed) for each in ids)
    assert bench.slots.memory_bytes <= 120
    assert len(bench.evictions) == 2


# The reference of the certificate.


def measure(bench, adapter):
    """What registration would have measured."""
    seen = []

    def note(chunks, logits):
        seen.append(logits[0].copy())

    bench.backend.edit_logits = note
    bench.backend.load_adapter(1, stand_in_weights(adapter))
    EffectCheck([1, 2, 3], [bench.blocks.num_blocks], 8).run(bench.backend, 1)
    bench.backend.unload_adapter(1)
    bench.backend.loads.clear()
    bench.backend.edit_logits = lambda chunks, logits: None
    token_ids = np.argsort(seen[-1])[::-1][:16]
    return CanaryReference(token_ids, seen[-1][token_ids])


def load_with(bench, adapter, reference):
    one = bench.add(PROMPT, (adapter,))
    bench.step()
    bench.wanted.clear()
    bench.loop.adapters.load(str(adapter), FetchedAdapter(stand_in_weights(adapter), reference))
    bench.collect()
    bench.run()
    return bench.end(one)


def test_an_adapter_that_answers_as_at_registration_is_served():
    bench = StepBench()
    assert isinstance(load_with(bench, 1, measure(bench, 1)), Completed)


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_only_differences_between_the_logits_count(shift):
    bench = StepBench()
    reference = measure(bench, 1)
    moved = CanaryReference(reference.token_ids, reference.logits + np.float32(shift))
    assert isinstance(load_with(bench, 1, moved), Completed)


def test_an_adapter_that_answers_otherwise_is_refused_and_its_slot_emptied():
    bench = StepBench()
    error = load_with(bench, 2, measure(bench, 1)).error
    assert isinstance(error, AdapterRejectedError)
    assert "registered" in error.message
    assert bench.refused == ["2"]
    assert bench.slots.find("2") is None
    bench.assert_at_rest()


# The proof runs with the step, where there is one.


def running_base(bench):
    """A running sequence, and the base model's canary in hand."""
    bench.add(PROMPT, (4,))
    bench.run()
    base = bench.add([9, 9], max_tokens=30)
    bench.step()
    return base


def test_the_canary_is_part_of_the_running_step():
    bench = StepBench(budget=16, max_num_seqs=4)
    base = running_base(bench)
    steps = []
    bench.backend.before_forward = lambda chunks: steps.append(len(chunks))
    one = bench.add(PROMPT, (1,))
    bench.step()
    bench.load_wanted()
    assert not bench.slots.is_resident("1")
    bench.step()
    assert bench.slots.is_resident("1")
    assert steps == [1, 2]
    bench.run()
    assert bench.text(one) == solo_text(PROMPT, (1,), 6)
    assert bench.text(base) == solo_text([9, 9], (), 30)


def test_a_refusal_in_a_running_step_costs_the_others_nothing():
    bench = StepBench(budget=16, max_num_seqs=4)
    base = running_base(bench)
    bad = bench.add(PROMPT, (1,))
    bench.step()
    bench.wanted.clear()
    bench.loop.adapters.load("1", fetched(1, scale=0.0))
    bench.step()
    assert isinstance(bench.end(bad).error, AdapterRejectedError)
    bench.run()
    assert bench.text(base) == solo_text([9, 9], (), 30)


def test_a_step_without_room_leaves_the_canary_a_step_of_its_own():
    bench = StepBench(budget=4, max_num_seqs=4)
    base = running_base(bench)
    sizes = []
    bench.backend.before_forward = lambda chunks: sizes.append([len(c.token_ids) for c in chunks])
    bench.add(PROMPT * 3, max_tokens=2)
    bench.add(PROMPT, (1,))
    bench.step()
    bench.load_wanted()
    bench.step()
    assert sizes == [[1, 3], [3], [1, 3]]
    bench.run()
    assert bench.text(base) == solo_text([9, 9], (), 30)


def test_a_joint_step_that_fails_takes_nobody_along():
    bench = StepBench(budget=16, max_num_seqs=4)
    base = running_base(bench)
    one = bench.add(PROMPT, (1,))
    bench.step()

    def fail(chunks):
        if len(chunks) == 2:
            raise RuntimeError

    bench.backend.before_forward = fail
    bench.load_wanted()
    bench.step()
    assert bench.slots.is_resident("1")
    bench.backend.before_forward = lambda chunks: None
    bench.run()
    assert bench.text(one) == solo_text(PROMPT, (1,), 6)
    assert bench.text(base) == solo_text([9, 9], (), 30)
