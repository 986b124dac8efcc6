"""Places kept for tenants that hold none."""

from __future__ import annotations

import pytest

from services.scheduler.request import Priority
from services.scheduler.reserve import Company, kept_places
from tests.support.schedules import make_request, make_schedule


@pytest.mark.parametrize(
    ("places", "kept"), [(1, 0), (3, 0), (4, 1), (8, 1), (15, 1), (16, 2), (64, 8)]
)
def test_one_place_in_eight_is_kept(places, kept):
    assert kept_places(places) == kept


def test_a_tenant_is_alone_until_another_asks_and_ten_minutes_after():
    company = Company()
    assert not company.has_company("a", 0.0)
    company.note("a", 0.0)
    company.note("a", 1.0)
    assert not company.has_company("a", 1.0)
    company.note("b", 2.0)
    assert company.has_company("a", 601.9)
    assert not company.has_company("a", 602.0)
    assert company.has_company("b", 600.9)
    assert not company.has_company("b", 601.0)


def test_the_two_last_tenants_are_all_it_takes():
    company = Company()
    for number, tenant in enumerate("abcba"):
        company.note(tenant, float(number))
    assert company.has_company("a", 602.0)
    assert company.has_company("c", 602.0)
    assert company.next_change_s(5.0) == 603.0
    assert company.next_change_s(603.0) == 604.0
    assert company.next_change_s(604.0) is None


def submit(schedule, tenant, number, now_s=0.0, **changes):
    for _ in range(number):
        schedule.submit(make_request(tenant, **changes), now_s)


def tenants(schedule, now_s=0.0):
    found = []
    while (lease := schedule.grant_next(now_s)) is not None:
        found.append(lease.request.tenant_id)
    return found


def test_a_flooder_leaves_a_place_to_others():
    schedule = make_schedule(max_running=8)
    submit(schedule, "flooder", 20)
    submit(schedule, "light", 1)
    assert sorted(tenants(schedule)) == ["flooder"] * 6 + ["light"]
    submit(schedule, "other", 1)
    assert tenants(schedule) == ["other"]
    submit(schedule, "another", 1)
    assert tenants(schedule) == []


def test_a_lone_tenant_takes_them_all_once_the_others_are_long_gone():
    schedule = make_schedule(max_running=8, lease_s=10_000.0)
    submit(schedule, "light", 1)
    assert tenants(schedule) == ["light"]
    submit(schedule, "flooder", 20)
    assert tenants(schedule) == ["flooder"] * 6
    assert schedule.next_event_s(0.0) == 600.0
    assert tenants(schedule, 600.0) == ["flooder"]


def test_lower_classes_keep_no_places():
    schedule = make_schedule(max_running=8)
    submit(schedule, "light", 1)
    assert tenants(schedule) == ["light"]
    submit(schedule, "flooder", 20, priority=Priority.BATCH)
    assert tenants(schedule) == ["flooder"] * 7


def test_kept_places_are_those_of_the_whole_node():
    schedule = make_schedule(workers=2, max_running=8)
    submit(schedule, "light", 1)
    submit(schedule, "flooder", 20)
    assert tenants(schedule).count("flooder") == 13
