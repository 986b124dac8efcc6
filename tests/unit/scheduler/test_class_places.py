"""Whose leases count for whom: interactive goes past lower classes, and those take what is free."""

from __future__ import annotations

import pytest

from services.scheduler.places import PlaceLimits, num_free_places
from services.scheduler.request import Priority
from tests.support.schedules import make_request, make_schedule

INTERACTIVE, BACKGROUND, BATCH = Priority


def submit(schedule, priority, number, now_s=0.0, **changes):
    for _ in range(number):
        schedule.submit(make_request(priority=priority, **changes), now_s)


def granted(schedule, now_s=0.0):
    leases = []
    while (lease := schedule.grant_next(now_s)) is not None:
        leases.append(lease)
    return leases


def classes(leases):
    return [lease.request.priority for lease in leases]


@pytest.mark.parametrize(
    ("running", "free"),
    [
        ({}, (4, 4, 4)),
        ({BATCH: 4}, (4, 0, 0)),
        ({BACKGROUND: 1, BATCH: 1}, (4, 2, 2)),
        ({INTERACTIVE: 3, BATCH: 1}, (1, 0, 3)),
        ({INTERACTIVE: 4, BACKGROUND: 2, BATCH: 2}, (0, 0, 0)),
        # The device took half of the places away while all were in use.
        ({INTERACTIVE: 6, BATCH: 6}, (0, 0, 0)),
    ],
)
def test_free_places_of_interactive_of_batch_and_of_an_overdue_batch(running, free):
    running = dict.fromkeys(Priority, 0) | running
    assert free == (
        num_free_places(4, running, INTERACTIVE, is_overdue=False),
        num_free_places(4, running, BATCH, is_overdue=False),
        num_free_places(4, running, BATCH, is_overdue=True),
    )


def test_interactive_requests_do_not_wait_for_lower_classes():
    schedule = make_schedule(max_running=2)
    submit(schedule, BATCH, 2)
    assert classes(granted(schedule)) == [BATCH, BATCH]
    submit(schedule, INTERACTIVE, 3)
    assert classes(granted(schedule)) == [INTERACTIVE, INTERACTIVE]
    assert schedule.leases.num_running_on("w0") == 4


def test_lower_classes_take_only_what_is_free_of_all():
    schedule = make_schedule(max_running=2)
    submit(schedule, BATCH, 3)
    batch = granted(schedule)
    submit(schedule, INTERACTIVE, 2)
    interactive = granted(schedule)
    for lease in batch:
        schedule.release(lease.request.ticket_id, "acme", 1, 0.0)
    assert granted(schedule) == []
    schedule.release(interactive[0].request.ticket_id, "acme", 1, 0.0)
    assert classes(granted(schedule)) == [BATCH]


def test_an_overdue_class_gets_its_place_under_endless_interactive_load():
    """Aging: one grant each aging time, until its leases fill the places of the lower classes."""
    schedule = make_schedule(max_running=2, lease_s=1000.0)
    submit(schedule, INTERACTIVE, 10)
    submit(schedule, BATCH, 5)
    assert classes(granted(schedule)) == [INTERACTIVE, INTERACTIVE]
    assert schedule.next_event_s(0.0) == 15.0
    assert granted(schedule, 14.9) == []
    first = granted(schedule, 15.0)
    assert classes(first) == [BATCH]
    assert granted(schedule, 29.9) == []
    assert classes(granted(schedule, 30.0)) == [BATCH]
    # Both are paused for interactive ones: the next waits for one of them to end.
    assert granted(schedule, 60.0) == []
    schedule.release(first[0].request.ticket_id, "acme", 1, 61.0)
    assert classes(granted(schedule, 61.0)) == [BATCH]


def test_an_overdue_class_without_a_place_holds_nobody_up():
    schedule = make_schedule(max_running=2, lease_s=1000.0)
    submit(schedule, BATCH, 3)
    granted(schedule)
    submit(schedule, INTERACTIVE, 1, now_s=20.0)
    assert classes(granted(schedule, 20.0)) == [INTERACTIVE]


def test_the_limit_of_the_device_holds_for_overdue_classes_too():
    schedule = make_schedule(max_running=4)
    schedule.limit_places(PlaceLimits(max_lower_running=1))
    submit(schedule, BACKGROUND, 3)
    assert classes(granted(schedule)) == [BACKGROUND]
    assert granted(schedule, 100.0) == []


def test_interactive_goes_to_the_worker_with_an_idle_seat_before_one_that_would_pause_others():
    schedule = make_schedule(workers=2, max_running=2)
    submit(schedule, BATCH, 2, num_resident={"w1": 1})
    assert [lease.worker for lease in granted(schedule)] == ["w1", "w1"]
    submit(schedule, INTERACTIVE, 2)
    assert [lease.worker for lease in granted(schedule)] == ["w0", "w0"]
    submit(schedule, INTERACTIVE, 3)
    assert [lease.worker for lease in granted(schedule)] == ["w1", "w1"]


def test_one_adapters_requests_do_not_starve_anothers_Q03():
    """A, B, A, A, A, ... and one place: residency decides the worker, never whose turn it is."""
    schedule = make_schedule(max_running=1)
    held = {"w0": 1}
    for name in "ABAAAA":
        schedule.submit(
            make_request(request_id=name, num_resident=held if name == "A" else None), 0.0
        )
    order = []
    for _ in range(3):
        lease = schedule.grant_next(0.0)
        order.append(lease.request.request_id)
        schedule.release(lease.request.ticket_id, "acme", 100, 0.0)
        schedule.submit(make_request(request_id="A", num_resident=held), 0.0)
    assert order == ["A", "B", "A"]
