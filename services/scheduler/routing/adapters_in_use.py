"""Which adapters a tenant's requests use that wait or run: each is in a slot, or on its way."""

from __future__ import annotations

from services.scheduler.schedule import Schedule


def adapters_in_use(schedule: Schedule, tenant_id: str) -> set[str]:
    """Returns their digests."""
    requests = (*schedule.leases.running(), *schedule.queue.waiting_of(tenant_id))
    return {
        digest
        for request in requests
        if request.tenant_id == tenant_id
        for digest in request.digests
    }
