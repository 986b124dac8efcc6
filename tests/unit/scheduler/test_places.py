"""Places while the device is under pressure."""

from __future__ import annotations

import pytest

from services.inference.engine.run_limits import RunLimits
from services.scheduler.places import PlaceLimits
from services.scheduler.request import Priority
from tests.support.schedules import make_request, make_schedule

INTERACTIVE, BACKGROUND, BATCH = Priority


def granted_classes(schedule):
    classes = []
    while (lease := schedule.grant_next(0.0)) is not None:
        classes.append(lease.request.priority)
    return classes


@pytest.mark.parametrize(("share", "places"), [(1.0, 4), (0.5, 2), (0.3, 1), (0.01, 1)])
def test_a_share_of_the_places_remains_and_never_none(share, places):
    schedule = make_schedule(max_running=4)
    schedule.limit_places(PlaceLimits(share=share))
    for _ in range(6):
        schedule.submit(make_request(), 0.0)
    assert len(granted_classes(schedule)) == places
    schedule.limit_places(PlaceLimits())
    assert len(granted_classes(schedule)) == 4 - places


@pytest.mark.parametrize("num_places", [1, 7, 50, 100, 4096])
def test_a_share_is_the_same_of_places_and_of_sequences(num_places):
    for percent in range(1, 101):
        expected = max(1, num_places * percent // 100)
        share = percent / 100
        whole = RunLimits(max_num_seqs=num_places, max_prefill_tokens=1, num_threads=1)
        assert PlaceLimits(share=share).places_of(num_places) == expected
        assert whole.reduced(seqs=share, prefill=1, threads=1).max_num_seqs == expected


def test_running_requests_keep_their_places():
    schedule = make_schedule(max_running=4)
    requests = [make_request() for _ in range(5)]
    for request in requests:
        schedule.submit(request, 0.0)
    assert len(granted_classes(schedule)) == 4
    schedule.limit_places(PlaceLimits(share=0.5))
    assert len(schedule.leases) == 4
    for request in requests[:2]:
        schedule.release(request.ticket_id, request.tenant_id, 1, 0.0)
    assert schedule.grant_next(0.0) is None
    schedule.release(requests[2].ticket_id, requests[2].tenant_id, 1, 0.0)
    assert schedule.grant_next(0.0).request is requests[4]


def test_background_and_batch_share_their_places_and_interactive_goes_past_them():
    schedule = make_schedule(max_running=8)
    schedule.limit_places(PlaceLimits(max_lower_running=2))
    for priority in (BATCH, BATCH, BACKGROUND, BACKGROUND, INTERACTIVE):
        schedule.submit(make_request(priority=priority), 0.0)
    assert granted_classes(schedule) == [INTERACTIVE, BACKGROUND, BACKGROUND]
    # Long overdue: the limit holds all the same.
    assert schedule.grant_next(1000.0) is None
    schedule.limit_places(PlaceLimits())
    assert granted_classes(schedule) == [BATCH, BATCH]
