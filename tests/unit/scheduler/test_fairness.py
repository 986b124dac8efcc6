"""Fair sharing inside one class: the bounds of the virtual token counter hold."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.class_queue import ClassQueue
from services.scheduler.fairness import VirtualTokenCounters
from tests.support.schedules import make_request

_TENANTS = ("a", "b", "c")
_LARGEST = 500


def test_the_tenant_with_fewer_tokens_goes_first():
    queue = ClassQueue()
    for _ in range(10):
        queue.push(make_request("long", estimated_tokens=1000))
        queue.push(make_request("short", estimated_tokens=100))
    served = Counter(queue.pop().tenant_id for _ in range(11))
    assert served["long"] in (1, 2)
    assert served["short"] in (9, 10)


def test_a_light_tenant_does_not_wait_behind_a_flooder_T15():
    queue = ClassQueue()
    for _ in range(100):
        queue.push(make_request("flooder"))
    queue.pop()
    light = make_request("light")
    queue.push(light)
    assert queue.position(light) == 0 or queue.position(light) == 1
    assert light in (queue.pop(), queue.pop())


def test_a_returning_idle_tenant_gets_no_burst_T16():
    queue = ClassQueue()
    for _ in range(100):
        queue.push(make_request("busy"))
    for _ in range(50):
        queue.pop()
    for _ in range(50):
        queue.push(make_request("idle"))
    served = Counter(queue.pop().tenant_id for _ in range(20))
    assert abs(served["busy"] - served["idle"]) <= 1


def test_credit_does_not_survive_an_empty_queue_T16():
    counters = VirtualTokenCounters()
    counters.join("worked", [])
    counters.charge("worked", "ticket", 5000)
    counters.leave("worked")
    counters.join("newcomer", [])
    assert counters.served_tokens("newcomer") == 5000


def test_the_last_to_leave_the_queue_sets_the_level_T16():
    queue = ClassQueue()
    queue.push(make_request("worked", estimated_tokens=5000))
    queue.settle(queue.pop(), used_tokens=4000)
    queue.push(make_request("newcomer"))
    assert queue.served_tokens("newcomer") == 4000


def test_cancelled_work_is_charged_and_unused_work_is_not_T16():
    queue = ClassQueue()
    queue.push(make_request("acme", estimated_tokens=300))
    granted = queue.pop()
    queue.settle(granted, used_tokens=120)
    assert queue.served_tokens("acme") == 120


def test_leaving_the_queue_earns_nothing_T16():
    queue = ClassQueue()
    for _ in range(20):
        queue.push(make_request("patient"))
    for _ in range(10):
        queue.pop()
        hasty = make_request("hasty")
        queue.push(hasty)
        queue.remove(hasty)
    queue.push(make_request("hasty"))
    assert queue.served_tokens("hasty") >= queue.served_tokens("patient")


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_lift_shrinks_with_what_was_not_used_T16(is_waiting):
    """Eight requests ask for a lot and are cancelled: who came meanwhile does not pay for it."""
    queue = ClassQueue()
    for _ in range(8):
        queue.push(make_request("hasty", estimated_tokens=8000))
    large = [queue.pop() for _ in range(8)]
    if is_waiting:
        queue.push(make_request("hasty", estimated_tokens=100))
    queue.push(make_request("light"))
    queue.push(make_request("later"))  # lifted by who was lifted
    assert {queue.served_tokens(tenant) for tenant in ("light", "later")} == {64_000}
    for request in large:
        queue.settle(request, used_tokens=10)
    assert {queue.served_tokens(tenant) for tenant in ("hasty", "light", "later")} == {80}


def test_no_correction_takes_more_than_the_lift_T16():
    queue = ClassQueue()
    queue.push(make_request("worked", estimated_tokens=7000))
    queue.settle(queue.pop(), used_tokens=7000)
    queue.push(make_request("hasty", estimated_tokens=8000))  # lifted to 7000
    large = queue.pop()
    for _ in range(2):  # twice: only the first one lifts
        request = make_request("worked")
        queue.push(request)
        queue.remove(request)
    assert queue.served_tokens("worked") == 15_000
    queue.settle(large, used_tokens=0)
    assert (queue.served_tokens("worked"), queue.served_tokens("hasty")) == (7000, 7000)


def test_what_never_came_back_stays_charged_and_lifts_for_good_T16():
    queue = ClassQueue()
    queue.push(make_request("lost", estimated_tokens=8000))
    queue.keep(queue.pop())
    queue.push(make_request("light"))
    assert queue.served_tokens("light") == 8000


def test_a_new_instance_starts_all_at_the_same_level_F02():
    counters = VirtualTokenCounters()
    assert {counters.served_tokens(tenant) for tenant in _TENANTS} == {0}


@given(
    st.lists(
        st.tuples(st.sampled_from(_TENANTS), st.integers(1, _LARGEST)), min_size=1, max_size=120
    ),
    st.integers(0, 60),
)
def test_backlogged_tenants_stay_within_the_bound_T15(arrivals, num_before):
    """With exact estimates: counters differ by at most one request, service by at most two."""
    queue = ClassQueue()
    for tenant, tokens in arrivals[:num_before]:
        queue.push(make_request(tenant, estimated_tokens=tokens))
    for _ in range(min(num_before, len(arrivals)) // 2):
        queue.pop()
    for tenant, tokens in arrivals[num_before:]:
        queue.push(make_request(tenant, estimated_tokens=tokens))

    charged: dict[tuple[str, str], Counter[str]] = {
        pair: Counter() for pair in combinations(_TENANTS, 2)
    }
    while len(queue):
        backlogged = {tenant for tenant in _TENANTS if queue.num_waiting_of(tenant)}
        granted = queue.pop()
        still = {tenant for tenant in _TENANTS if queue.num_waiting_of(tenant)}
        for pair, served in charged.items():
            if not set(pair) <= backlogged:
                served.clear()
                continue
            served[granted.tenant_id] += granted.estimated_tokens
            assert abs(served[pair[0]] - served[pair[1]]) <= 2 * _LARGEST
            if set(pair) <= still:
                gap = queue.served_tokens(pair[0]) - queue.served_tokens(pair[1])
                assert abs(gap) <= _LARGEST


@given(
    st.lists(
        st.tuples(st.sampled_from(_TENANTS), st.integers(1, _LARGEST)), min_size=6, max_size=100
    ),
    st.lists(st.frozensets(st.sampled_from(_TENANTS)), min_size=1, max_size=20),
)
def test_kept_places_widen_the_bound_by_one_request_T15(arrivals, holders):
    """Whoever holds places at whatever time: nobody runs ahead by more than one request more."""
    queue = ClassQueue()
    for tenant, tokens in arrivals:
        queue.push(make_request(tenant, estimated_tokens=tokens))
    for turn in range(len(arrivals)):
        queue.pop(holders[turn % len(holders)].__contains__)
        waiting = [tenant for tenant in _TENANTS if queue.num_waiting_of(tenant)]
        counters = [queue.served_tokens(tenant) for tenant in waiting]
        assert max(counters, default=0) - min(counters, default=0) <= 2 * _LARGEST


def test_a_kept_place_goes_to_the_first_that_holds_none():
    queue = ClassQueue()
    for tenant in ("flooder", "light", "other"):
        queue.push(make_request(tenant))
    assert queue.pop({"flooder"}.__contains__).tenant_id == "light"
    assert queue.pop({"flooder", "light"}.__contains__).tenant_id == "other"
    assert queue.pop({"flooder", "light", "other"}.__contains__) is None
    assert queue.pop().tenant_id == "flooder"


def test_a_kept_place_is_not_for_who_has_had_more_than_the_others():
    queue = ClassQueue()
    for _ in range(2):
        queue.push(make_request("flooder", estimated_tokens=100))
        queue.push(make_request("greedy", estimated_tokens=5000))
    queue.pop()
    queue.pop()
    assert queue.served_tokens("greedy") == 5000
    queue.push(make_request("greedy", estimated_tokens=4000))
    queue.remove(next(iter(queue.requests_of("greedy"))))
    assert queue.pop({"flooder"}.__contains__) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(_TENANTS), st.integers(1, _LARGEST), st.integers(0, 2 * _LARGEST)
        ),
        min_size=6,
        max_size=100,
    ),
    st.integers(1, 8),
)
def test_wrong_estimates_widen_the_bound_by_what_is_in_flight_T15(arrivals, num_places):
    queue = ClassQueue()
    used = {}
    for tenant, estimated, used_tokens in arrivals:
        request = make_request(tenant, estimated_tokens=estimated)
        used[request.ticket_id] = used_tokens
        queue.push(request)
    running = []
    bound = _LARGEST + num_places * 2 * _LARGEST
    while len(queue):
        if len(running) == num_places:
            oldest = running.pop(0)
            queue.settle(oldest, used[oldest.ticket_id])
        running.append(queue.pop())
        waiting = [tenant for tenant in _TENANTS if queue.num_waiting_of(tenant)]
        counters = [queue.served_tokens(tenant) for tenant in waiting]
        assert max(counters, default=0) - min(counters, default=0) <= bound


@given(
    st.lists(
        st.tuples(st.sampled_from(_TENANTS), st.integers(1, _LARGEST)), min_size=1, max_size=40
    )
)
def test_the_position_is_how_many_go_before(arrivals):
    queue = ClassQueue()
    for tenant, tokens in arrivals:
        queue.push(make_request(tenant, estimated_tokens=tokens))
    for _ in range(len(arrivals) // 3):
        queue.pop()
    expected = {request.ticket_id: queue.position(request) for request in queue}
    order = [queue.pop().ticket_id for _ in range(len(queue))]
    assert {ticket_id: order.index(ticket_id) for ticket_id in order} == expected
