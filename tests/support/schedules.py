"""Scheduler parts with small limits, ready for a test."""

from __future__ import annotations

from itertools import count

from services.scheduler.leases import LeaseTable
from services.scheduler.request import Priority, Request
from services.scheduler.request_queue import QueueLimits, RequestQueue
from services.scheduler.roster import Roster
from services.scheduler.schedule import Schedule

_numbers = count()


def make_request(
    tenant_id: str = "acme",
    *,
    priority: Priority = Priority.INTERACTIVE,
    estimated_tokens: int = 100,
    request_id: str = "request",
    num_resident: dict[str, int] | None = None,
    max_output_tokens: int = 50,
    asked_at_s: float = 0.0,
    allowed_s: float | None = None,
) -> Request:
    """A request with a ticket id of its own."""
    return Request(
        ticket_id=f"ticket-{next(_numbers)}",
        tenant_id=tenant_id,
        request_id=request_id,
        priority=priority,
        estimated_tokens=estimated_tokens,
        num_resident=num_resident or {},
        max_output_tokens=max_output_tokens,
        asked_at_s=asked_at_s,
        allowed_s=allowed_s,
    )


def make_limits(
    *,
    max_waiting: int = 1000,
    max_waiting_per_tenant: int = 1000,
    background_aging_s: float = 5.0,
    batch_aging_s: float = 15.0,
) -> QueueLimits:
    """Limits that are the same for every class."""
    return QueueLimits(
        max_waiting=dict.fromkeys(Priority, max_waiting),
        max_waiting_per_tenant=max_waiting_per_tenant,
        aging_s={Priority.BACKGROUND: background_aging_s, Priority.BATCH: batch_aging_s},
        retry_after_s=2.0,
    )


def make_schedule(
    *,
    limits: QueueLimits | None = None,
    workers: int = 1,
    max_running: int = 2,
    lease_s: float = 30.0,
    no_worker_limit_s: float = 5.0,
    now_s: float = 0.0,
    are_ready: bool = True,
) -> Schedule:
    """A schedule over workers named w0, w1, ..."""
    names = [f"w{index}" for index in range(workers)]
    roster = Roster({name: f"unix:/{name}.sock" for name in names}, max_running, now_s)
    for name in names:
        roster.set_ready(name, are_ready, now_s)
    return Schedule(
        RequestQueue(limits or make_limits()),
        LeaseTable(lease_s),
        roster,
        load_factor=1.25,
        no_worker_limit_s=no_worker_limit_s,
    )
