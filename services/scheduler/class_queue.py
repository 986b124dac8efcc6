"""The waiting requests of one class: first come first served in a tenant, fair among tenants."""

from __future__ import annotations

from collections.abc import Iterator

from services.scheduler.fairness import VirtualTokenCounters
from services.scheduler.request import Request


class ClassQueue:
    """Requests of one priority class in their fair order."""

    def __init__(self) -> None:
        self._counters = VirtualTokenCounters()
        self._waiting: dict[str, dict[str, Request]] = {}
        self._arrivals: dict[str, int] = {}
        self._num_arrived = 0

    def __len__(self) -> int:
        return len(self._arrivals)

    def __iter__(self) -> Iterator[Request]:
        for requests in self._waiting.values():
            yield from requests.values()

    def num_waiting_of(self, tenant_id: str) -> int:
        """Returns how many requests of the tenant wait here."""
        return len(self._waiting.get(tenant_id, ()))

    def served_tokens(self, tenant_id: str) -> int:
        """Returns the tenant's virtual token counter."""
        return self._counters.served_tokens(tenant_id)

    def push(self, request: Request) -> None:
        """Adds a request behind the others of its tenant."""
        tenant_id = request.tenant_id
        if tenant_id not in self._waiting:
            self._counters.join(tenant_id, self._waiting)
            self._waiting[tenant_id] = {}
        self._waiting[tenant_id][request.ticket_id] = request
        self._arrivals[request.ticket_id] = self._num_arrived
        self._num_arrived += 1

    def pop(self) -> Request:
        """Removes the next request in fair order and charges its estimate.

        Equal counters go by arrival. Raises ValueError when nothing waits.
        """
        heads = (next(iter(requests.values())) for requests in self._waiting.values())
        head = min(heads, key=lambda request: self._order_of(request, ahead_tokens=0))
        self.remove(head)
        self._counters.charge(head.tenant_id, head.estimated_tokens)
        return head

    def remove(self, request: Request) -> None:
        """Takes a waiting request out, without a charge. Raises KeyError when it does not wait."""
        del self._arrivals[request.ticket_id]
        requests = self._waiting[request.tenant_id]
        del requests[request.ticket_id]
        if not requests:
            del self._waiting[request.tenant_id]
            self._counters.leave(request.tenant_id)

    def settle(self, request: Request, used_tokens: int) -> None:
        """Corrects the charge of a granted request to what it used."""
        self._counters.settle(
            request.tenant_id, charged_tokens=request.estimated_tokens, used_tokens=used_tokens
        )

    def position(self, request: Request) -> int:
        """Returns how many requests go before this one if nobody else arrives or settles.

        Each tenant's requests start at its counter plus what stands before them, and `pop` serves
        the smallest start: the fair order is the order of the starts.
        """
        starts: list[tuple[tuple[int, int], str]] = []
        for requests in self._waiting.values():
            ahead_tokens = 0
            for other in requests.values():
                starts.append((self._order_of(other, ahead_tokens), other.ticket_id))
                ahead_tokens += other.estimated_tokens
        starts.sort()
        return [ticket_id for _, ticket_id in starts].index(request.ticket_id)

    def _order_of(self, request: Request, ahead_tokens: int) -> tuple[int, int]:
        start = self._counters.served_tokens(request.tenant_id) + ahead_tokens
        return start, self._arrivals[request.ticket_id]
