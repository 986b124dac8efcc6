"""Leases end by release or by the clock, and only their tenant touches them."""

from __future__ import annotations

from services.scheduler.leases import LeaseTable
from services.scheduler.request import Priority
from tests.support.schedules import make_request


def granted(table, now_s=0.0, **changes):
    request = make_request(**changes)
    table.grant(request, "w0", now_s)
    return request


def test_a_lease_holds_its_place_until_released():
    table = LeaseTable(30.0)
    request = granted(table, priority=Priority.BATCH)
    assert table.num_running_on("w0") == 1
    assert table.num_running(Priority.BATCH) == 1
    assert table.release(request.ticket_id, "acme", 1.0) is not None
    assert table.num_running_on("w0") == 0
    assert table.release(request.ticket_id, "acme", 1.0) is None


def test_renewing_counts_from_now():
    table = LeaseTable(30.0)
    request = granted(table)
    assert table.renew(request.ticket_id, "acme", 20.0).expires_at_s == 50.0
    assert table.expire(49.9) == []
    assert [lease.request for lease in table.expire(50.0)] == [request]
    assert len(table) == 0


def test_an_ended_lease_is_gone_even_before_it_is_swept_F07():
    """A process that was stopped for long must not go on with leases that ended meanwhile."""
    table = LeaseTable(30.0)
    request = granted(table)
    assert table.renew(request.ticket_id, "acme", 30.0) is None
    assert table.release(request.ticket_id, "acme", 31.0) is None
    assert len(table.expire(31.0)) == 1


def test_another_tenants_lease_looks_unknown():
    table = LeaseTable(30.0)
    request = granted(table, tenant_id="acme")
    assert table.renew(request.ticket_id, "mallory", 1.0) is None
    assert table.release(request.ticket_id, "mallory", 1.0) is None
    assert table.num_running_on("w0") == 1


def test_the_next_expiry():
    table = LeaseTable(30.0)
    assert table.next_expiry_s() is None
    granted(table, 5.0)
    granted(table, 3.0)
    assert table.next_expiry_s() == 33.0
