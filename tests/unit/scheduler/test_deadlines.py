"""Requests that cannot be answered in time are refused early, uncharged, and never run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgelora.errors import DeadlineExceededError
from services.scheduler.pace import Answer
from services.scheduler.request import Priority
from services.scheduler.start_limits import StartLimits
from tests.support.schedules import make_request, make_schedule
from tests.support.simulated_node import SimulatedNode, Work


def make_measured_schedule(now_s=0.0, max_running=1, priority=Priority.INTERACTIVE):
    """Answers took 2 s: 1 s to the first token and ten more tokens in another."""
    schedule = make_schedule(max_running=max_running, now_s=now_s - 10.0)
    for _ in range(4):
        schedule.submit(make_request(priority=priority), now_s - 2.0)
        lease = schedule.grant_next(now_s - 2.0)
        answer = Answer(num_output_tokens=11, first_token_s=1.0)
        schedule.release(lease.request.ticket_id, "acme", 100, now_s, answer)
    return schedule


def submit(schedule, now_s=0.0, **changes):
    request = make_request(asked_at_s=now_s, **changes)
    schedule.submit(request, now_s)
    return request


def test_what_is_not_known_refuses_nobody():
    schedule = make_schedule(max_running=1)
    submit(schedule, allowed_s=0.001)
    submit(schedule, allowed_s=0.001)
    assert schedule.grant_next(0.0) is not None


def test_a_deadline_that_has_passed_already_is_refused_even_so():
    schedule = make_schedule()
    with pytest.raises(DeadlineExceededError):
        submit(schedule, allowed_s=0.0)
    assert len(schedule.queue) == 0


def test_an_answer_that_can_not_come_in_time_is_refused_at_once():
    schedule = make_measured_schedule()
    with pytest.raises(DeadlineExceededError, match=r"answer 2 s, 1\.9 s are allowed") as caught:
        submit(schedule, allowed_s=1.9)
    assert caught.value.metadata == {"expected_s": "2.000", "allowed_s": "1.900"}
    assert len(schedule.queue) == 0
    submit(schedule, allowed_s=2.1)


def test_whoever_wants_less_may_take_less_time():
    schedule = make_measured_schedule()
    submit(schedule, allowed_s=1.9, max_output_tokens=6)
    with pytest.raises(DeadlineExceededError):
        submit(schedule, allowed_s=0.9, max_output_tokens=1)


def test_the_wait_for_a_place_counts():
    """One place, one lease running, one request waiting: 1.5 leases of 2 s, and 2 s of answer."""
    schedule = make_measured_schedule()
    submit(schedule)
    schedule.grant_next(0.0)
    submit(schedule)
    with pytest.raises(DeadlineExceededError, match="wait for a place is expected to take 3 s"):
        submit(schedule, allowed_s=4.9)
    submit(schedule, allowed_s=5.1)


def test_a_place_that_is_kept_for_its_tenant_is_free():
    """Seven of eight places and the queue are a flooder's; the eighth is kept for others."""
    schedule = make_measured_schedule(max_running=8)
    submit(schedule, tenant_id="light")
    light = schedule.grant_next(0.0)
    schedule.release(light.request.ticket_id, "light", 100, 0.0)
    for _ in range(20):
        submit(schedule, tenant_id="flooder")
    while schedule.grant_next(0.0):
        pass
    assert schedule.leases.num_running(Priority.INTERACTIVE) == 7
    with pytest.raises(DeadlineExceededError):
        submit(schedule, tenant_id="flooder", allowed_s=2.1)
    submit(schedule, tenant_id="light", allowed_s=2.1)
    assert schedule.grant_next(0.0).request.tenant_id == "light"


def test_better_classes_go_before():
    schedule = make_measured_schedule(priority=Priority.BATCH)
    submit(schedule, priority=Priority.BATCH)
    schedule.grant_next(0.0)
    for _ in range(3):
        submit(schedule)
    with pytest.raises(DeadlineExceededError, match="take 7 s"):
        submit(schedule, priority=Priority.BATCH, allowed_s=8.9)


def test_a_free_place_means_no_wait():
    schedule = make_measured_schedule(max_running=2)
    submit(schedule)
    schedule.grant_next(0.0)
    submit(schedule, allowed_s=2.1)


def test_while_waiting_it_leaves_when_the_time_left_is_too_short_uncharged():
    schedule = make_measured_schedule()
    submit(schedule, tenant_id="busy")
    lease = schedule.grant_next(0.0)
    late = submit(schedule, tenant_id="late", allowed_s=4.0)
    charged = schedule.queue.served_tokens(Priority.INTERACTIVE, "late")
    assert schedule.next_event_s(0.0) == 2.0
    assert schedule.remove_late(1.9) == []
    [(request, error)] = schedule.remove_late(2.0)
    assert request is late
    assert "no place came free in 2 s" in error.message
    assert "of the 4 s allowed" in error.message
    assert schedule.queue.served_tokens(Priority.INTERACTIVE, "late") == charged
    schedule.release(lease.request.ticket_id, "busy", 1, 2.0)
    assert schedule.grant_next(2.0) is None


def test_the_order_inside_a_class_is_the_fair_one_whatever_the_deadlines():
    schedule = make_schedule(max_running=1)
    patient = submit(schedule, tenant_id="a", allowed_s=100.0)
    hasty = submit(schedule, tenant_id="a", allowed_s=10.0)
    first = schedule.grant_next(0.0)
    assert first.request is patient
    schedule.release(patient.ticket_id, "a", 1, 1.0)
    assert schedule.grant_next(1.0).request is hasty


def test_an_estimate_that_refuses_everybody_is_given_up():
    schedule = make_measured_schedule()
    for now_s in (1.0, 5.0, 9.9):
        with pytest.raises(DeadlineExceededError):
            submit(schedule, now_s, allowed_s=1.0)
    submit(schedule, 10.0, allowed_s=1.0)
    assert schedule.grant_next(10.0) is not None


@given(
    st.lists(
        st.tuples(st.floats(0.0, 20.0), st.floats(0.0, 10.0), st.integers(1, 60)),
        min_size=1,
        max_size=60,
    )
)
def test_under_any_load_nobody_starts_after_its_deadline_and_each_ends_once(arrivals):
    node = SimulatedNode(make_schedule(max_running=2, lease_s=1000.0))
    started = []
    grant_next = node.schedule.grant_next

    def watch(now_s):
        lease = grant_next(now_s)
        if lease is not None:
            started.append(lease.request)
            assert now_s < lease.request.deadline_s
        return lease

    node.schedule.grant_next = watch
    for time_s, allowed_s, num_output_tokens in arrivals:

        def send(allowed_s=allowed_s, num_output_tokens=num_output_tokens):
            request = make_request(asked_at_s=node.now_s, allowed_s=allowed_s)
            node.submit(Work(request=request, num_output_tokens=num_output_tokens))

        node.at(time_s, send)
    node.run(1000.0)
    # Whoever is late leaves when the clock says so, not when something else happens.
    while (next_s := node.schedule.next_event_s(node.now_s)) is not None:
        node.at(next_s, lambda: None)
        node.run(next_s)
    assert node.ends.total() == len(arrivals)
    assert node.ends["answered"] == len(started)
    assert len(node.schedule.queue) == len(node.schedule.leases) == 0


@given(
    st.lists(st.tuples(st.integers(0, 30), st.floats(0.0, 100.0)), max_size=60),
    st.sets(st.integers(0, 59)),
    st.floats(0.0, 100.0),
)
def test_start_limits_are_a_sorted_set(entries, discarded, now_s):
    limits = StartLimits()
    expected = {}
    for number, start_by_s in entries:
        ticket_id = f"t{number}"
        limits.discard(ticket_id)
        limits.add(ticket_id, start_by_s)
        expected[ticket_id] = start_by_s
    for number in discarded:
        limits.discard(f"t{number}")
        expected.pop(f"t{number}", None)
    assert limits.next_s() == min(expected.values(), default=None)
    late = limits.passed(now_s)
    assert set(late) == {name for name, start_by_s in expected.items() if start_by_s <= now_s}
    assert [expected[name] for name in late] == sorted(expected[name] for name in late)
