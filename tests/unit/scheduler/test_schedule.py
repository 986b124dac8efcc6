"""The schedule under random histories: places are never exceeded and never lost."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from edgelora.errors import DeadlineExceededError, QueueFullError, ServiceUnavailableError
from services.scheduler.pace import Answer
from services.scheduler.places import PlaceLimits
from services.scheduler.request import Priority
from tests.support.schedules import make_limits, make_request, make_schedule

_MAX_RUNNING = 2
_LEASE_S = 30.0
_LARGEST = 500
_NUM_PLACES = 2 * _MAX_RUNNING
_NUM_KEPT = 1
_OFTEN_INTERACTIVE = st.sampled_from([Priority.INTERACTIVE, Priority.INTERACTIVE, *Priority])


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
    schedule.expire(lease.expires_at_s)
    assert not schedule.release(lease.request.ticket_id, "acme", 1, lease.expires_at_s)
    assert schedule.queue.served_tokens(Priority.INTERACTIVE, "acme") == 700


def test_without_workers_requests_are_refused_after_the_limit():
    schedule = make_schedule(are_ready=False, no_worker_limit_s=5.0)
    schedule.submit(make_request(), 4.9)
    assert schedule.next_event_s(4.9) == 5.0
    with pytest.raises(
        ServiceUnavailableError, match="no worker that does this is ready"
    ) as caught:
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


def test_a_full_queue_says_how_often_places_came_free():
    schedule = make_schedule(workers=2, max_running=1, limits=make_limits(max_waiting=2))
    for _ in range(4):
        schedule.submit(make_request(), 0.0)
        lease = schedule.grant_next(0.0)
        answer = Answer(num_output_tokens=10, first_token_s=1.0)
        schedule.release(lease.request.ticket_id, "acme", 100, 12.0, answer)
    for _ in range(2):
        schedule.submit(make_request(), 12.0)
    # Two places, each held for 12 s.
    with pytest.raises(QueueFullError) as caught:
        schedule.submit(make_request(), 12.0)
    assert caught.value.retry_after_s == pytest.approx(6.0)


class ScheduleMachine(RuleBasedStateMachine):
    """Random submits, grants, releases, renewals, cancels, expiries and changes of the node."""

    waiting = Bundle("waiting")
    running = Bundle("running")

    def __init__(self):
        super().__init__()
        self.now_s = 0.0
        self.limits = PlaceLimits()
        self.schedule = make_schedule(
            workers=2,
            max_running=_MAX_RUNNING,
            lease_s=_LEASE_S,
            limits=make_limits(max_waiting=6, max_waiting_per_tenant=4),
        )
        self.expected_waiting = set()
        self.expected_running = {}
        self.num_submitted = 0
        self.ends = Counter()
        self.unserved_since_s = {}
        self.askers = set()

    @rule(
        target=waiting,
        tenants=st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
        priority=_OFTEN_INTERACTIVE,
        tokens=st.integers(1, _LARGEST),
        allowed_s=st.sampled_from([None, None, None, 10.0, 30.0]) | st.floats(0.0, 30.0),
    )
    def submit(self, tenants, priority, tokens, allowed_s):
        requests = [
            make_request(
                tenant,
                priority=priority,
                estimated_tokens=tokens,
                asked_at_s=self.now_s,
                allowed_s=allowed_s,
            )
            for tenant in tenants
        ]
        for request in requests:
            self.submit_one(request)
        return multiple(*requests)

    def submit_one(self, request):
        priority, tenant = request.priority, request.tenant_id
        waiting = self.waiting_in(priority)
        is_full = len(waiting) >= 6 or (sum(other.tenant_id == tenant for other in waiting) >= 4)
        self.num_submitted += 1
        try:
            position = self.schedule.submit(request, self.now_s)
        except QueueFullError:
            assert is_full
            self.ends[request] += 1
        except ServiceUnavailableError:
            assert not self.schedule.roster.ready()
            self.ends[request] += 1
        except DeadlineExceededError:
            assert request.allowed_s is not None
            self.ends[request] += 1
        else:
            assert not is_full
            self.expected_waiting.add(request)
            if priority is Priority.INTERACTIVE:
                self.askers.add(tenant)
            if not waiting:
                self.unserved_since_s[priority] = self.now_s
            assert position == self.order_in(priority).index(request.ticket_id)

    @rule(target=running)
    def advance(self):
        """What the dispatcher does whenever something changed."""
        self.leave_late()
        granted = []
        while (request := self.grant()) is not None:
            granted.append(request)
        return multiple(*granted)

    def grant(self):
        overdue = [priority for priority in self.overdue() if self.num_free(priority, True)]
        lease = self.schedule.grant_next(self.now_s)
        if lease is None:
            assert not overdue
            self.expect_that_nobody_could_run()
            return None
        request = lease.request
        assert self.schedule.roster[lease.worker].is_ready
        assert request.deadline_s is None or self.now_s < request.deadline_s
        is_overdue = request.priority in overdue
        assert is_overdue == bool(overdue)
        assert self.free_on(lease.worker, request.priority, is_overdue)
        assert not self.is_kept_from(request)
        self.unserved_since_s[request.priority] = self.now_s
        self.expected_waiting.remove(request)
        self.expected_running[request] = (lease.worker, self.now_s + _LEASE_S)
        return request

    @rule(request=consumes(waiting))
    def cancel(self, request):
        removed = self.schedule.queue.remove(request.ticket_id)
        assert (removed is not None) == (request in self.expected_waiting)
        if removed is not None:
            self.expected_waiting.remove(request)
            self.ends[request] += 1

    @rule()
    def leave_late(self):
        late = {request for request, _ in self.schedule.remove_late(self.now_s)}
        assert late <= self.expected_waiting
        self.expected_waiting -= late
        self.ends.update(late)
        assert all(request.deadline_s is not None for request in late)
        for request in self.expected_waiting:
            assert request.deadline_s is None or self.now_s < request.deadline_s

    @rule(
        request=consumes(running),
        used=st.integers(0, 2 * _LARGEST),
        first_token_s=st.none() | st.floats(0.0, 10.0),
        is_owner=st.booleans(),
    )
    def release(self, request, used, first_token_s, is_owner):
        tenant = request.tenant_id if is_owner else "mallory"
        answer = Answer(num_output_tokens=used, first_token_s=first_token_s)
        was_running = self.schedule.release(request.ticket_id, tenant, used, self.now_s, answer)
        holds = request in self.expected_running
        is_alive = holds and self.now_s < self.expected_running[request][1]
        assert was_running == (is_alive and is_owner)
        if was_running:
            del self.expected_running[request]
            self.ends[request] += 1

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
        ended = {lease.request for lease in self.schedule.expire(self.now_s)}
        assert ended == {
            request
            for request, (_, expires_at_s) in self.expected_running.items()
            if self.now_s >= expires_at_s
        }
        for request in ended:
            del self.expected_running[request]
        self.ends.update(ended)

    @rule(worker=st.sampled_from(["w0", "w1"]), is_ready=st.sampled_from([True, True, True, False]))
    def change_worker(self, worker, is_ready):
        self.schedule.roster.set_ready(worker, is_ready, self.now_s)

    @rule(
        share=st.sampled_from([1.0, 1.0, 1.0, 0.5, 0.25]),
        max_lower=st.sampled_from([None, None, None, 0, 1, 2, 3]),
    )
    def change_device(self, share, max_lower):
        self.limits = PlaceLimits(share=share, max_lower_running=max_lower)
        self.schedule.limit_places(self.limits)

    @invariant()
    def places_are_never_exceeded_nor_lost(self):
        leases = self.schedule.leases
        assert len(leases) == len(self.expected_running)
        for name in ("w0", "w1"):
            running = self.running_on(name)
            assert +leases.running_on(name) == running
            assert running[Priority.INTERACTIVE] <= _MAX_RUNNING
            assert running[Priority.BACKGROUND] + running[Priority.BATCH] <= _MAX_RUNNING
            assert leases.num_running_on(name) == running.total()

    @invariant()
    def the_queue_holds_what_waits(self):
        assert set(self.schedule.queue.waiting()) == self.expected_waiting
        assert sum(self.schedule.queue.num_waiting(p) for p in Priority) == len(
            self.expected_waiting
        )

    @invariant()
    def each_request_is_in_one_place_and_ends_once(self):
        assert all(number == 1 for number in self.ends.values())
        num_open = len(self.expected_waiting) + len(self.expected_running)
        assert self.num_submitted == num_open + len(self.ends)

    @invariant()
    def tenants_that_wait_stay_within_the_bound(self):
        """Twice the largest request, and what those in flight may yet be corrected by."""
        bound = 2 * _LARGEST + 2 * 2 * _MAX_RUNNING * 2 * _LARGEST
        for priority in Priority:
            tenants = {request.tenant_id for request in self.waiting_in(priority)}
            counters = [self.schedule.queue.served_tokens(priority, name) for name in tenants]
            assert max(counters, default=0) - min(counters, default=0) <= bound

    def teardown(self):
        """Nothing leaks: after the last cancel and expiry every place is free again."""
        for request in list(self.expected_waiting):
            self.schedule.queue.remove(request.ticket_id)
        self.schedule.expire(self.now_s + _LEASE_S)
        assert len(self.schedule.queue) == len(self.schedule.leases) == 0
        assert self.schedule.next_event_s(self.now_s) is None

    # The model.

    def running_on(self, name):
        return Counter(
            request.priority
            for request, (worker, _) in self.expected_running.items()
            if worker == name
        )

    def places(self):
        return max(1, int(_MAX_RUNNING * self.limits.share))

    def free_on(self, name, priority, is_overdue):
        running = self.running_on(name)
        num_lower = running[Priority.BACKGROUND] + running[Priority.BATCH]
        if priority is Priority.INTERACTIVE:
            return max(0, self.places() - running[priority])
        num_all_lower = sum(other is not Priority.INTERACTIVE for other in self.all_running())
        if self.limits.max_lower_running is not None and (
            num_all_lower >= self.limits.max_lower_running
        ):
            return 0
        return max(0, self.places() - (num_lower if is_overdue else running.total()))

    def all_running(self):
        return [request.priority for request in self.expected_running]

    def num_free(self, priority, is_overdue):
        ready = self.schedule.roster.ready()
        return sum(self.free_on(worker.name, priority, is_overdue) for worker in ready)

    def overdue(self):
        return [
            priority
            for priority, aging_s in ((Priority.BACKGROUND, 5.0), (Priority.BATCH, 15.0))
            if self.waiting_in(priority) and self.now_s >= self.unserved_since_s[priority] + aging_s
        ]

    def expect_that_nobody_could_run(self):
        """No place is free but such as are kept from all who wait."""
        for priority in Priority:
            num_free = self.num_free(priority, is_overdue=False)
            if not self.waiting_in(priority) or not num_free:
                continue
            tenants = {request.tenant_id for request in self.waiting_in(priority)}
            lowest = min(map(self.counter, tenants))
            for request in self.waiting_in(priority):
                is_ahead = self.counter(request.tenant_id) > lowest
                assert is_ahead or self.is_kept_from(request)

    def is_kept_from(self, request):
        """Whether the places left are kept for tenants that hold none, unlike this one's."""
        num_ready = len(self.schedule.roster.ready())
        return (
            request.priority is Priority.INTERACTIVE
            and num_ready * self.places() >= _NUM_PLACES
            and self.num_free(request.priority, is_overdue=False) <= _NUM_KEPT
            and bool(self.askers - {request.tenant_id})
            and any(
                (other.tenant_id, other.priority) == (request.tenant_id, request.priority)
                for other in self.expected_running
            )
        )

    def counter(self, tenant):
        return self.schedule.queue.served_tokens(Priority.INTERACTIVE, tenant)

    def order_in(self, priority):
        """In which order a class would be served if nobody else came, by serving it in a copy."""
        queue = deepcopy(self.schedule.queue)
        order = []
        while (request := queue.pop(priority, self.now_s)) is not None:
            order.append(request.ticket_id)
        return order

    def waiting_in(self, priority):
        return [request for request in self.expected_waiting if request.priority is priority]


ScheduleMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestSchedule = ScheduleMachine.TestCase
