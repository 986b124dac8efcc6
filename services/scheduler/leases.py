"""Leases: the places that granted requests hold, until released or expired."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from services.scheduler.request import Priority, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One granted request and the place it holds."""

    request: Request
    worker: str
    granted_at_s: float
    expires_at_s: float


class LeaseTable:
    """All leases. A lease ends at `expires_at_s`, whether or not it has been swept by then."""

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        """How long a lease holds without a renewal."""
        self._leases: dict[str, Lease] = {}
        self._by_worker: dict[str, Counter[Priority]] = {}
        self._by_tenant: Counter[tuple[Priority, str]] = Counter()

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, ticket_id: str) -> bool:
        return ticket_id in self._leases

    def grant(self, request: Request, worker: str, now_s: float) -> Lease:
        """Opens a lease under the request's ticket id."""
        lease = Lease(
            request=request, worker=worker, granted_at_s=now_s, expires_at_s=now_s + self.lease_s
        )
        self._leases[request.ticket_id] = lease
        self._by_worker.setdefault(worker, Counter())[request.priority] += 1
        self._by_tenant[request.priority, request.tenant_id] += 1
        return lease

    def renew(self, ticket_id: str, tenant_id: str, now_s: float) -> Lease | None:
        """Extends a lease from now; None when it is unknown, ended, or another tenant's."""
        lease = self._find(ticket_id, tenant_id, now_s)
        if lease is not None:
            lease = replace(lease, expires_at_s=now_s + self.lease_s)
            self._leases[ticket_id] = lease
        return lease

    def release(self, ticket_id: str, tenant_id: str, now_s: float) -> Lease | None:
        """Ends a lease and frees its place; None when it is unknown, ended, or another tenant's."""
        lease = self._find(ticket_id, tenant_id, now_s)
        if lease is not None:
            self._end(lease)
        return lease

    def expire(self, now_s: float) -> list[Lease]:
        """Ends every lease whose time is over and frees their places."""
        ended = [lease for lease in self._leases.values() if now_s >= lease.expires_at_s]
        for lease in ended:
            self._end(lease)
        return ended

    def next_expiry_s(self) -> float | None:
        """Returns when the next lease ends unless renewed; None without leases."""
        return min((lease.expires_at_s for lease in self._leases.values()), default=None)

    def running_on(self, worker: str) -> Counter[Priority]:
        """Returns how many places of the worker each class holds; 0 for a class not in it."""
        return self._by_worker.get(worker, Counter())

    def num_running_on(self, worker: str) -> int:
        """Returns how many places of the worker are taken."""
        return self.running_on(worker).total()

    def num_running(self, priority: Priority) -> int:
        """Returns how many requests of the class run."""
        return sum(counts[priority] for counts in self._by_worker.values())

    def running(self) -> list[Request]:
        """Returns every request that holds a place, in order of the grants."""
        return [lease.request for lease in self._leases.values()]

    def num_running_of(self, priority: Priority, tenant_id: str) -> int:
        """Returns how many requests of the class the tenant runs."""
        return self._by_tenant[priority, tenant_id]

    def _end(self, lease: Lease) -> None:
        request = lease.request
        del self._leases[request.ticket_id]
        self._by_worker[lease.worker][request.priority] -= 1
        self._by_tenant[request.priority, request.tenant_id] -= 1
        if not self._by_tenant[request.priority, request.tenant_id]:
            del self._by_tenant[request.priority, request.tenant_id]

    def _find(self, ticket_id: str, tenant_id: str, now_s: float) -> Lease | None:
        lease = self._leases.get(ticket_id)
        if lease is None or lease.request.tenant_id != tenant_id or now_s >= lease.expires_at_s:
            return None
        return lease
