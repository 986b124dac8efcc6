"""The three class queues: order, aging bound, limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgelora.errors import QueueFullError
from services.scheduler.request import Priority
from services.scheduler.request_queue import RequestQueue
from tests.support.schedules import make_limits, make_request

_AGING_S = {Priority.BACKGROUND: 5.0, Priority.BATCH: 15.0}


def pop(queue, now_s):
    """What the schedule grants when there are places for every class."""
    turns = queue.turns(now_s)
    return queue.pop(turns[0].priority, now_s) if turns else None


def admit(queue, request):
    """What the schedule does with an arrival."""
    queue.require_room(request.priority, request.tenant_id, grant_interval_s=None)
    queue.push(request, 0.0)


def test_classes_go_in_order():
    queue = RequestQueue(make_limits())
    for priority in (Priority.BATCH, Priority.BACKGROUND, Priority.INTERACTIVE):
        queue.push(make_request(priority=priority), 0.0)
    assert [pop(queue, 1.0).priority for _ in range(3)] == list(Priority)
    assert pop(queue, 1.0) is None


def test_an_overdue_class_goes_first_once():
    queue = RequestQueue(make_limits())
    for _ in range(3):
        queue.push(make_request(priority=Priority.INTERACTIVE), 0.0)
        queue.push(make_request(priority=Priority.BATCH), 0.0)
    assert pop(queue, 14.9).priority is Priority.INTERACTIVE
    assert pop(queue, 15.0).priority is Priority.BATCH
    assert pop(queue, 15.1).priority is Priority.INTERACTIVE


def test_new_arrivals_do_not_restart_the_aging_of_their_class():
    queue = RequestQueue(make_limits())
    queue.push(make_request(priority=Priority.INTERACTIVE), 0.0)
    for now_s in range(15):
        queue.push(make_request(priority=Priority.BATCH), float(now_s))
    assert pop(queue, 15.0).priority is Priority.BATCH


def test_of_two_overdue_classes_the_one_that_was_due_first_goes_first():
    queue = RequestQueue(make_limits())
    queue.push(make_request(priority=Priority.BACKGROUND), 11.0)
    queue.push(make_request(priority=Priority.BATCH), 0.0)
    assert pop(queue, 20.0).priority is Priority.BATCH
    queue.push(make_request(priority=Priority.BATCH), 2.0)
    assert pop(queue, 20.0).priority is Priority.BACKGROUND


def test_the_earlier_due_background_goes_before_the_overdue_batch():
    queue = RequestQueue(make_limits())
    queue.push(make_request(priority=Priority.BACKGROUND), 0.0)
    queue.push(make_request(priority=Priority.BATCH), 0.0)
    assert pop(queue, 20.0).priority is Priority.BACKGROUND
    assert pop(queue, 20.0).priority is Priority.BATCH


def test_requests_for_one_adapter_do_not_starve_another_Q03():
    """A, B, A, A, A, ... for ever: within a tenant the order of arrival holds."""
    queue = RequestQueue(make_limits())
    requests = [make_request(request_id=name) for name in "ABAAAA"]
    for request in requests:
        queue.push(request, 0.0)
    granted = []
    for now_s in range(3):
        granted.append(pop(queue, float(now_s)).request_id)
        queue.push(make_request(request_id="A"), float(now_s))
    assert granted == ["A", "B", "A"]


def test_a_second_tenants_adapter_is_served_next_but_one_Q03():
    queue = RequestQueue(make_limits())
    for _ in range(50):
        queue.push(make_request("tenant-a", request_id="A"), 0.0)
    for _ in range(10):
        pop(queue, 0.0)
    queue.push(make_request("tenant-b", request_id="B"), 0.0)
    assert "B" in [pop(queue, 1.0).request_id for _ in range(2)]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("push"), st.sampled_from(Priority)),
            st.tuples(st.just("pop"), st.floats(0.0, 4.0)),
        ),
        max_size=200,
    )
)
def test_an_overdue_class_waits_for_at_most_one_other_grant(actions):
    """The stated bound of the module, under any history."""
    queue = RequestQueue(make_limits())
    now_s = 0.0
    since_s: dict[Priority, float] = {}
    others: dict[Priority, int] = {}
    for action, value in actions:
        if action == "push":
            if not queue.num_waiting(value):
                since_s[value], others[value] = now_s, 0
            queue.push(make_request(priority=value), now_s)
            continue
        now_s += value
        overdue = [
            priority
            for priority, aging_s in _AGING_S.items()
            if queue.num_waiting(priority) and now_s >= since_s[priority] + aging_s
        ]
        granted = pop(queue, now_s)
        if granted is None:
            continue
        since_s[granted.priority], others[granted.priority] = now_s, 0
        for priority in overdue:
            if granted.priority is not priority:
                others[priority] += 1
                assert others[priority] <= 1


def test_a_full_class_refuses_and_says_when_to_come_back():
    queue = RequestQueue(make_limits(max_waiting=2))
    admit(queue, make_request("a"))
    admit(queue, make_request("b"))
    with pytest.raises(QueueFullError, match="2 interactive requests on this node") as caught:
        admit(queue, make_request("c"))
    assert caught.value.retry_after_s == 2.0
    admit(queue, make_request("c", priority=Priority.BATCH))


def test_one_tenant_can_not_fill_the_class():
    queue = RequestQueue(make_limits(max_waiting=10, max_waiting_per_tenant=2))
    for _ in range(2):
        admit(queue, make_request("greedy"))
    with pytest.raises(QueueFullError, match="of yours"):
        admit(queue, make_request("greedy"))
    admit(queue, make_request("modest"))
    assert len(queue) == 3


@pytest.mark.parametrize(
    ("interval_s", "retry_s"), [(None, 2.0), (0.1, 2.0), (5.0, 5.0), (600.0, 60.0)]
)
def test_a_full_class_says_when_the_next_place_in_the_queue_is_likely_free(interval_s, retry_s):
    queue = RequestQueue(make_limits(max_waiting=1))
    admit(queue, make_request("a"))
    with pytest.raises(QueueFullError, match=f"try again in {retry_s:g} s") as caught:
        queue.require_room(Priority.INTERACTIVE, "b", grant_interval_s=interval_s)
    assert caught.value.retry_after_s == retry_s


def test_a_tenant_at_its_limit_waits_for_one_grant_of_each_tenant():
    queue = RequestQueue(make_limits(max_waiting=10, max_waiting_per_tenant=1))
    for tenant in "abc":
        admit(queue, make_request(tenant))
    with pytest.raises(QueueFullError, match="of yours") as caught:
        queue.require_room(Priority.INTERACTIVE, "b", grant_interval_s=1.5)
    assert caught.value.retry_after_s == 4.5


def test_a_refused_request_leaves_no_trace():
    queue = RequestQueue(make_limits(max_waiting=1))
    admit(queue, make_request("a"))
    refused = make_request("b")
    with pytest.raises(QueueFullError):
        admit(queue, refused)
    assert refused.ticket_id not in queue
    assert queue.find("b", "request") == []
    assert queue.num_waiting(Priority.INTERACTIVE) == 1


def test_removing_makes_room_and_charges_nothing():
    queue = RequestQueue(make_limits(max_waiting=1))
    request = make_request("a")
    admit(queue, request)
    assert queue.remove(request.ticket_id) == request
    assert queue.remove(request.ticket_id) is None
    assert queue.served_tokens(Priority.INTERACTIVE, "a") == 0
    admit(queue, make_request("a"))
