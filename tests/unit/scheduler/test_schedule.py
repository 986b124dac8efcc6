"""The schedule under random histories: places are never exceeded and never lost."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from edgelora.errors import QueueFullError, ServiceUnavailableError
from services.scheduler.request import Priority
from tests.support.schedules import make_limits, make_request, make_schedule

_MAX_RUNNING = 2
_LEASE_S = 10.0


def test_work_goes_to_ready_workers_only():
    schedule = make_schedule(workers=2)
    schedule.roster.set_ready("w0", False, 0.0)
    for _ in range(3):
        schedule.submit(make_request(num_resident={"w0": 4}), 0.0)
    leases = [schedule.grant_next(0.0) for _ in range(3)]
    assert [lease.worker if lease else None for lease in leases] == ["w1", "w1", None]


def test_an_expired_lease_keeps_its_charge_F01():
    schedule = make_schedule()
    schedule.submit(make_request("acme", estimated_tokens=700), 0.0)
    lease = schedule.grant_next(0.0)
    schedule.leases.expire(lease.expires_at_s)
    assert not schedule.release(lease.request.ticket_id, "acme", 1, lease.expires_at_s)
    assert schedule.queue.served_tokens(Priority.INTERACTIVE, "acme") == 700


def test_without_workers_requests_are_refused_after_the_limit():
    schedule = make_schedule(are_ready=False, no_worker_limit_s=5.0)
    schedule.submit(make_request(), 4.9)
    assert schedule.next_event_s(4.9) == 5.0
    with pytest.raises(ServiceUnavailableError, match="no inference worker is ready") as caught:
        schedule.submit(make_request(), 5.0)
    assert caught.value.retry_after_s == 5.0
    schedule.roster.set_ready("w0", True, 6.0)
    assert schedule.grant_next(6.0) is not None


def test_hearing_again_that_a_worker_is_down_does_not_restart_the_limit():
    schedule = make_schedule(workers=2, no_worker_limit_s=5.0)
    for now_s in (1.0, 4.0):
        for name in ("w0", "w1"):
            schedule.roster.set_ready(name, False, now_s)
    assert not schedule.is_stranded(5.9)
    assert schedule.is_stranded(6.0)


class ScheduleMachine(RuleBasedStateMachine):
    """Random submits, grants, releases, renewals, cancels, expiries and worker changes."""

    waiting = Bundle("waiting")
    running = Bundle("running")

    def __init__(self):
        super().__init__()
        self.now_s = 0.0
        self.schedule = make_schedule(
            workers=2,
            max_running=_MAX_RUNNING,
            lease_s=_LEASE_S,
            limits=make_limits(max_waiting=6, max_waiting_per_tenant=4),
        )
        self.expected_waiting = set()
        self.expected_running = {}

    @rule(
        target=waiting,
        tenant=st.sampled_from("abc"),
        priority=st.sampled_from(Priority),
        tokens=st.integers(1, 500),
    )
    def submit(self, tenant, priority, tokens):
        request = make_request(tenant, priority=priority, estimated_tokens=tokens)
        is_full = self.schedule.queue.num_waiting(priority) >= 6 or (
            sum(other.tenant_id == tenant for other in self.waiting_in(priority)) >= 4
        )
        try:
            position = self.schedule.submit(request, self.now_s)
        except QueueFullError:
            assert is_full
        except ServiceUnavailableError:
            assert not self.schedule.roster.ready()
        else:
            assert not is_full
            assert position < self.schedule.queue.num_waiting(priority)
            self.expected_waiting.add(request)
        return request

    @rule(target=running)
    def grant(self):
        has_place = any(
            self.num_running_on(worker.name) < _MAX_RUNNING
            for worker in self.schedule.roster.ready()
        )
        lease = self.schedule.grant_next(self.now_s)
        assert (lease is not None) == (has_place and bool(self.expected_waiting))
        if lease is None:
            return make_request()
        assert self.schedule.roster[lease.worker].is_ready
        self.expected_waiting.remove(lease.request)
        self.expected_running[lease.request] = (lease.worker, self.now_s + _LEASE_S)
        return lease.request

    @rule(request=consumes(waiting))
    def cancel(self, request):
        removed = self.schedule.queue.remove(request.ticket_id)
        assert (removed is not None) == (request in self.expected_waiting)
        self.expected_waiting.discard(request)

    @rule(request=consumes(running), used=st.integers(0, 1000), is_owner=st.booleans())
    def release(self, request, used, is_owner):
        tenant = request.tenant_id if is_owner else "mallory"
        was_running = self.schedule.release(request.ticket_id, tenant, used, self.now_s)
        holds = request in self.expected_running
        is_alive = holds and self.now_s < self.expected_running[request][1]
        assert was_running == (is_alive and is_owner)
        if was_running:
            del self.expected_running[request]

    @rule(request=running)
    def renew(self, request):
        lease = self.schedule.leases.renew(request.ticket_id, request.tenant_id, self.now_s)
        worker, expires_at_s = self.expected_running.get(request, (None, self.now_s))
        assert (lease is not None) == (self.now_s < expires_at_s)
        if lease is not None:
            self.expected_running[request] = (worker, self.now_s + _LEASE_S)

    @rule(seconds=st.floats(0.0, 8.0))
    def pass_time(self, seconds):
        self.now_s += seconds

    @rule()
    def sweep(self):
        ended = {lease.request for lease in self.schedule.leases.expire(self.now_s)}
        assert ended == {
            request
            for request, (_, expires_at_s) in self.expected_running.items()
            if self.now_s >= expires_at_s
        }
        for request in ended:
            del self.expected_running[request]

    @rule(worker=st.sampled_from(["w0", "w1"]), is_ready=st.booleans())
    def change_worker(self, worker, is_ready):
        self.schedule.roster.set_ready(worker, is_ready, self.now_s)

    @invariant()
    def places_are_never_exceeded_nor_lost(self):
        leases = self.schedule.leases
        assert len(leases) == len(self.expected_running)
        for name in ("w0", "w1"):
            assert leases.num_running_on(name) == self.num_running_on(name) <= _MAX_RUNNING

    @invariant()
    def the_queue_holds_what_waits(self):
        assert set(self.schedule.queue.waiting()) == self.expected_waiting
        assert sum(self.schedule.queue.num_waiting(p) for p in Priority) == len(
            self.expected_waiting
        )

    def teardown(self):
        """Nothing leaks: after the last cancel and expiry every place is free again."""
        for request in list(self.expected_waiting):
            self.schedule.queue.remove(request.ticket_id)
        self.schedule.leases.expire(self.now_s + _LEASE_S)
        assert len(self.schedule.queue) == len(self.schedule.leases) == 0

    def num_running_on(self, name):
        return sum(worker == name for worker, _ in self.expected_running.values())

    def waiting_in(self, priority):
        return [request for request in self.expected_waiting if request.priority is priority]


ScheduleMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestSchedule = ScheduleMachine.TestCase
