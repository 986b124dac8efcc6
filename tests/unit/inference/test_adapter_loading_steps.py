"""Adapters wanted, fetched, written, proven, refused and gone, without threads."""

import numpy as np
import pytest

from edgelora.errors import (
    AdapterNotFoundError,
    AdapterRejectedError,
    DataCorruptError,
    InternalError,
    ServiceUnavailableError,
    TicketExpiredError,
)
from services.inference.backends.base import UnfitAdapterError
from services.inference.engine.events import Completed
from tests.support.step_bench import StepBench, fetched, solo_text

PROMPT = [1, 2, 3, 4, 5]


def test_an_adapter_is_wanted_once_whoever_waits():
    bench = StepBench(max_num_seqs=4)
    ids = [bench.add(PROMPT, (1,)) for _ in range(3)]
    base = bench.add([1])
    bench.step()
    assert [wanted.digest for wanted in bench.wanted] == ["1"]
    for _ in range(8):
        bench.step()
    assert isinstance(bench.end(base), Completed)
    bench.run()
    assert all(isinstance(bench.end(sequence_id), Completed) for sequence_id in ids)
    assert all(bench.end(sequence_id).adapter_load_s > 0 for sequence_id in ids)
    assert len(bench.backend.loads) == 1


def test_an_adapter_without_effect_is_refused_for_all_who_wait_and_nobody_else():
    bench = StepBench()
    waiting = [bench.add(PROMPT, (1,)), bench.add([1], (1,))]
    base = bench.add(PROMPT)
    bench.step()
    bench.loop.adapters.load("1", fetched(1, scale=0.0))
    bench.step()
    for sequence_id in waiting:
        assert isinstance(bench.end(sequence_id).error, AdapterRejectedError)
    assert bench.refused == ["1"]
    bench.wanted.clear()
    bench.run()
    assert bench.text(base) == solo_text(PROMPT, (), 6)
    assert bench.slots.find("1") is None
    bench.assert_at_rest()


def test_an_adapter_that_overflows_is_refused_at_load_A15():
    bench = StepBench()
    one = bench.add(PROMPT, (1,))
    bench.step()

    def overflow(chunks, logits):
        for index, chunk in enumerate(chunks):
            if chunk.adapters:
                logits[index] = np.inf

    bench.backend.edit_logits = overflow
    bench.loop.adapters.load("1", fetched(1))
    bench.collect()
    assert isinstance(bench.end(one).error, AdapterRejectedError)


def test_a_back_end_that_can_not_load_an_adapter_fails_those_who_wait_A06_A17():
    bench = StepBench()
    waiting = [bench.add(PROMPT, (1,)), bench.add([1], (1,))]
    bench.step()

    def refuse(slot, weights):
        raise ValueError

    original, bench.backend.load_adapter = bench.backend.load_adapter, refuse
    bench.load_wanted()
    assert all(isinstance(bench.end(each).error, InternalError) for each in waiting)
    bench.backend.load_adapter = original
    later = bench.add(PROMPT, (1,))
    bench.run()
    assert bench.text(later) == solo_text(PROMPT, (1,), 6)


def test_an_adapter_no_slot_can_hold_is_refused_by_its_weights():
    bench = StepBench()
    one = bench.add(PROMPT, (1,))
    bench.step()

    def refuse(slot, weights):
        raise UnfitAdapterError("a factor is too large")

    bench.backend.load_adapter = refuse
    bench.load_wanted()
    error = bench.end(one).error
    assert isinstance(error, AdapterRejectedError)
    assert error.field == "weights"
    assert str(error) == "a factor is too large"
    bench.assert_at_rest()


@pytest.mark.parametrize("budget", [1, 2])
def test_a_step_budget_below_the_canary_still_proves_an_adapter(budget):
    bench = StepBench(max_num_seqs=1, budget=budget)
    good, idle = bench.add(PROMPT, (1,)), bench.add(PROMPT, (2,))
    bench.run()
    assert bench.text(good) == solo_text(PROMPT, (1,), 6)
    assert isinstance(bench.end(idle), Completed)
    idle = bench.add(PROMPT, (3,))
    bench.step()
    bench.loop.adapters.load("3", fetched(3, scale=0.0))
    bench.collect()
    assert isinstance(bench.end(idle).error, AdapterRejectedError)


def test_a_store_that_does_not_answer_fails_only_those_who_need_it():
    bench = StepBench()
    one, base = bench.add(PROMPT, (1,)), bench.add(PROMPT)
    bench.step()
    error = ServiceUnavailableError("away")
    bench.loop.adapters.give_up("1", "ticket", error)
    bench.wanted.clear()
    bench.run()
    assert bench.end(one).error is error
    assert isinstance(bench.end(base), Completed)
    bench.assert_at_rest()


def test_an_expired_ticket_costs_only_its_own_request():
    bench = StepBench()
    first = bench.add(PROMPT, (1,), ticket="old")
    second = bench.add([1], (1,), ticket="new")
    bench.step()
    assert bench.wanted.pop().ticket == "old"
    bench.loop.adapters.give_up("1", "old", TicketExpiredError("expired"))
    bench.collect()
    assert isinstance(bench.end(first).error, TicketExpiredError)
    assert bench.wanted[0].ticket == "new"
    bench.run()
    assert isinstance(bench.end(second), Completed)


@pytest.mark.parametrize("error", [AdapterNotFoundError, DataCorruptError, ServiceUnavailableError])
def test_what_one_tenant_can_not_have_fetched_another_may_T34(error):
    bench = StepBench()
    theirs = [bench.add(PROMPT, (1,), ticket=each, tenant_id="a") for each in ("a1", "a2")]
    other = bench.add([1], (1,), ticket="b", tenant_id="b")
    bench.step()
    assert bench.wanted.pop().ticket == "a1"
    bench.loop.adapters.give_up("1", "a1", error("not with this ticket"))
    bench.collect()
    assert all(isinstance(bench.end(each).error, error) for each in theirs)
    assert [each.ticket for each in bench.wanted] == ["b"]
    bench.run()
    assert isinstance(bench.end(other), Completed)
    bench.assert_at_rest()


def test_a_load_nobody_waits_for_any_more_still_ends():
    bench = StepBench(num_slots=1)
    one = bench.add(PROMPT, (1,))
    bench.step()
    bench.loop.cancel(one)
    other = bench.add(PROMPT, (2,))
    assert bench.step() is False
    bench.run()
    assert bench.text(other) == solo_text(PROMPT, (2,), 6)


def test_steps_go_on_while_an_adapter_is_written_and_nobody_uses_it_before_Q05():
    bench = StepBench(num_slots=1)
    bench.loader.is_holding = True
    one, base = bench.add(PROMPT, (1,)), bench.add(PROMPT)
    bench.step()
    bench.load_wanted()
    for _ in range(8):
        bench.step()
    assert isinstance(bench.end(base), Completed)
    assert bench.sequences[one].block_table == []
    assert not bench.slots.is_resident("1")
    bench.loop.adapters.give_up("1", "ticket", ServiceUnavailableError("away"))  # too late
    bench.loader.finish_all()
    bench.run()
    assert bench.text(one) == solo_text(PROMPT, (1,), 6)


def test_a_slot_being_written_is_nobody_elses_when_all_who_waited_are_gone():
    bench = StepBench(num_slots=1)
    bench.loader.is_holding = True
    gone = bench.add(PROMPT, (1,))
    bench.step()
    bench.load_wanted()
    bench.loop.cancel(gone)
    other = bench.add(PROMPT, (2,))
    bench.step()
    assert bench.wanted == []
    bench.loader.is_holding = False
    bench.loader.finish_all()
    assert bench.slots.is_resident("1")
    bench.run()
    assert bench.text(other) == solo_text(PROMPT, (2,), 6)


def test_a_load_that_fails_late_refuses_who_waits_and_frees_the_slot():
    bench = StepBench(num_slots=1)
    bench.loader.is_holding = True
    early = bench.add(PROMPT, (1,))
    bench.step()
    bench.loop.adapters.load("1", fetched(1, scale=0.0))
    bench.wanted.clear()
    late = bench.add([1], (1,))
    bench.step()
    assert bench.wanted == []
    bench.loader.finish_all()
    bench.collect()
    for sequence_id in (early, late):
        assert isinstance(bench.end(sequence_id).error, AdapterRejectedError)
    assert bench.slots.find("1") is None


def test_weights_given_twice_are_written_once():
    bench = StepBench()
    bench.loader.is_holding = True
    one = bench.add(PROMPT, (1,))
    bench.step()
    for _ in range(2):
        bench.loop.adapters.load("1", fetched(1))
    bench.wanted.clear()
    bench.loader.finish_all()
    bench.run()
    assert bench.backend.loads == [0]
    assert bench.text(one) == solo_text(PROMPT, (1,), 6)


def test_an_adapter_deleted_while_it_is_written_leaves_when_it_is_there_Q06():
    bench = StepBench()
    bench.loader.is_holding = True
    gone = bench.add(PROMPT, (1,))
    bench.step()
    bench.load_wanted()
    bench.loop.cancel(gone)
    bench.loop.adapters.set_deleted(frozenset({"1"}))
    bench.loader.finish_all()
    assert bench.slots.find("1") is None


def test_a_deleted_adapter_leaves_when_its_last_request_ends_Q06():
    bench = StepBench()
    one = bench.add(PROMPT, (1,))
    bench.step()
    bench.load_wanted()
    bench.step()
    bench.loop.adapters.set_deleted(frozenset({"1", "unheard-of"}))
    assert bench.slots.is_resident("1")
    late = bench.add(PROMPT, (1,))
    assert isinstance(bench.end(late).error, AdapterNotFoundError)
    bench.run()
    assert bench.text(one) == solo_text(PROMPT, (1,), 6)
    assert bench.slots.find("1") is None


def test_unused_deleted_adapters_leave_at_once_and_come_back_when_registered_again_Q06():
    bench = StepBench()
    for _ in range(20):
        one = bench.add(PROMPT, (1,))
        bench.run()
        assert bench.text(one) == solo_text(PROMPT, (1,), 6)
        bench.loop.adapters.set_deleted(frozenset({"1"}))
        assert bench.slots.find("1") is None
        bench.loop.adapters.set_deleted(frozenset())


def test_loading_while_others_stream_disturbs_nobody_Q05():
    bench = StepBench(num_slots=2, max_num_seqs=3, num_blocks=64)
    streams = [bench.add([n, n], (1,), max_tokens=40) for n in (1, 2)]
    for number in range(10):
        bench.add([3], (2 + number,), max_tokens=2)
    bench.run()
    for n, sequence_id in zip((1, 2), streams, strict=True):
        assert bench.text(sequence_id) == solo_text([n, n], (1,), 40)
