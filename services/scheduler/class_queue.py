"""The waiting requests of one class: first come first served in a tenant, fair among tenants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

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

    def requests_of(self, tenant_id: str) -> Iterable[Request]:
        """Returns the tenant's requests, in order of arrival."""
        return self._waiting.get(tenant_id, {}).values()

    def num_tenants(self) -> int:
        """Returns how many tenants wait here."""
        return len(self._waiting)

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

    def pop(self, is_kept_from: Callable[[str], bool] | None = None) -> Request | None:
        """Removes the next request in fair order and charges its estimate; None when there is none.

        Equal counters go by arrival. With `is_kept_from` only places are left that some tenants
        may not take: then the first goes that may, unless it would run ahead of the fair order by
        more than itself.
        """
        heads = [next(iter(requests.values())) for requests in self._waiting.values()]
        if not heads:
            return None
        head = min(heads, key=self._order_of_head)
        if is_kept_from is not None and is_kept_from(head.tenant_id):
            level = self._counters.served_tokens(head.tenant_id)
            entitled = [
                other
                for other in heads
                if self._counters.served_tokens(other.tenant_id) <= level + other.estimated_tokens
                and not is_kept_from(other.tenant_id)
            ]
            if not entitled:
                return None
            head = min(entitled, key=self._order_of_head)
        self.remove(head)
        self._counters.charge(head.tenant_id, head.ticket_id, head.estimated_tokens)
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
            request.ticket_id, charged_tokens=request.estimated_tokens, used_tokens=used_tokens
        )

    def keep(self, request: Request) -> None:
        """Leaves the charge of a granted request that never came back as it is."""
        self._counters.keep(request.ticket_id)

    def position(self, request: Request) -> int:
        """Returns how many requests go before this one if nobody else arrives or settles.

        Each tenant's requests start at its counter plus what stands before them, and `pop` serves
        the smallest start: the fair order is the order of the starts.
        """
        num_ahead = 0
        start = self._counters.served_tokens(request.tenant_id)
        for own in self.requests_of(request.tenant_id):
            if own.ticket_id == request.ticket_id:
                break
            num_ahead += 1
            start += own.estimated_tokens
        order = (start, self._arrivals[request.ticket_id])
        for tenant_id, others in self._waiting.items():
            if tenant_id == request.tenant_id:
                continue
            start = self._counters.served_tokens(tenant_id)
            for other in others.values():
                if (start, self._arrivals[other.ticket_id]) > order:
                    break
                num_ahead += 1
                start += other.estimated_tokens
        return num_ahead

    def _order_of_head(self, request: Request) -> tuple[int, int]:
        served_tokens = self._counters.served_tokens(request.tenant_id)
        return served_tokens, self._arrivals[request.ticket_id]
