"""The three class queues: interactive before background before batch, and nobody starves.

Aging works on the class, not on the single request: a lower class that has waited its aging time
without a grant is overdue and goes first, once. The bound: as long as a class has requests
waiting, then after its aging time has passed at most one grant goes to another class before it
gets one. Under endless interactive load the background class so gets one grant each aging time,
and the interactive queue is never flooded by old batch work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from edgelora.errors import QueueFullError
from services.scheduler.class_queue import ClassQueue
from services.scheduler.request import Priority, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How much may wait, and how long a lower class waits before it goes first once."""

    max_waiting: Mapping[Priority, int]
    """Most waiting requests of each class."""
    max_waiting_per_tenant: int
    """Most waiting requests of one tenant in one class."""
    aging_s: Mapping[Priority, float]
    """Longest time without a grant; the interactive class has none, it always goes first."""
    retry_after_s: float
    """What a refused caller is told to wait."""


class RequestQueue:
    """Every request that waits for a place."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._classes = {priority: ClassQueue() for priority in Priority}
        self._requests: dict[str, Request] = {}
        self._unserved_since_s: dict[Priority, float] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, ticket_id: str) -> bool:
        return ticket_id in self._requests

    def waiting(self) -> list[Request]:
        """Returns every waiting request, in order of arrival."""
        return list(self._requests.values())

    def num_waiting(self, priority: Priority) -> int:
        """Returns how many requests of the class wait."""
        return len(self._classes[priority])

    def served_tokens(self, priority: Priority, tenant_id: str) -> int:
        """Returns the tenant's virtual token counter in the class."""
        return self._classes[priority].served_tokens(tenant_id)

    def find(self, tenant_id: str, request_id: str) -> list[Request]:
        """Returns the tenant's waiting requests of that name."""
        return [
            request
            for request in self._requests.values()
            if request.tenant_id == tenant_id and request.request_id == request_id
        ]

    def require_room(self, priority: Priority, tenant_id: str) -> None:
        """Raises QueueFullError when one more request of the tenant and class may not wait."""
        queue = self._classes[priority]
        if queue.num_waiting_of(tenant_id) >= self._limits.max_waiting_per_tenant:
            limit = self._limits.max_waiting_per_tenant
            whose = "of yours"
        elif len(queue) >= self._limits.max_waiting[priority]:
            limit = self._limits.max_waiting[priority]
            whose = "on this node"
        else:
            return
        class_name = priority.name.lower()
        raise QueueFullError(
            f"{limit} {class_name} requests {whose} wait already: "
            f"try again in {self._limits.retry_after_s:g} s",
            metadata={"priority": class_name, "max_waiting": str(limit)},
            retry_after_s=self._limits.retry_after_s,
        )

    def push(self, request: Request, now_s: float) -> int:
        """Queues a request and returns how many of its class go before it.

        Raises QueueFullError.
        """
        self.require_room(request.priority, request.tenant_id)
        queue = self._classes[request.priority]
        if not len(queue):
            self._unserved_since_s[request.priority] = now_s
        queue.push(request)
        self._requests[request.ticket_id] = request
        return queue.position(request)

    def pop(self, now_s: float, classes: Collection[Priority] = tuple(Priority)) -> Request | None:
        """Removes the request of these classes that runs next and charges its tenant.

        None when nothing of them waits.
        """
        priority = self._next_class(now_s, classes)
        if priority is None:
            return None
        request = self._classes[priority].pop()
        del self._requests[request.ticket_id]
        self._unserved_since_s[priority] = now_s
        return request

    def remove(self, ticket_id: str) -> Request | None:
        """Takes a request out without a charge; None when it does not wait."""
        request = self._requests.pop(ticket_id, None)
        if request is not None:
            self._classes[request.priority].remove(request)
        return request

    def settle(self, request: Request, used_tokens: int) -> None:
        """Corrects what a granted request was charged."""
        self._classes[request.priority].settle(request, used_tokens)

    def _next_class(self, now_s: float, classes: Collection[Priority]) -> Priority | None:
        waiting = [
            priority
            for priority in Priority
            if priority in classes and len(self._classes[priority])
        ]
        due_s = {
            priority: self._unserved_since_s[priority] + self._limits.aging_s[priority]
            for priority in waiting
            if priority in self._limits.aging_s
        }
        overdue = [priority for priority, due in due_s.items() if now_s >= due]
        if overdue:
            return min(overdue, key=lambda priority: due_s[priority])
        return waiting[0] if waiting else None
