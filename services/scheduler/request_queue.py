"""The three class queues: interactive before background before batch, and nobody starves.

Aging works on the class, not on the single request: a lower class that has waited its aging time
without a grant is overdue and goes first, once. The bound: as long as a class has requests
waiting, then after its aging time has passed it gets a place as soon as fewer than all places are
held by lower classes (places.py), and at most one grant goes to another class before it gets one.
Under endless interactive load the background class so gets one grant each aging time, and the
interactive queue is never flooded by old batch work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgelora.errors import QueueFullError
from services.scheduler.class_queue import ClassQueue
from services.scheduler.request import Priority, Request
from services.scheduler.start_limits import StartLimits

_LONGEST_RETRY_S = 60.0


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
    """The least a refused caller is told to wait."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A class with waiting requests, when its turn comes."""

    priority: Priority
    is_overdue: bool


class RequestQueue:
    """Every request that waits for a place."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._classes = {priority: ClassQueue() for priority in Priority}
        self._requests: dict[str, Request] = {}
        self._start_limits = StartLimits()
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

    def waiting_of(self, tenant_id: str) -> list[Request]:
        """Returns the tenant's waiting requests, class by class, in order of arrival."""
        return [
            request for queue in self._classes.values() for request in queue.requests_of(tenant_id)
        ]

    def find(self, tenant_id: str, request_id: str) -> list[Request]:
        """Returns the tenant's waiting requests of that name."""
        return [each for each in self.waiting_of(tenant_id) if each.request_id == request_id]

    def require_room(
        self, priority: Priority, tenant_id: str, *, grant_interval_s: float | None
    ) -> None:
        """Raises QueueFullError when one more request of the tenant and class may not wait.

        `grant_interval_s`: how often a request of the class is expected to leave the queue, None
        when unknown. By the fair order one of a tenant's leaves at least once a round of tenants.
        """
        queue = self._classes[priority]
        if queue.num_waiting_of(tenant_id) >= self._limits.max_waiting_per_tenant:
            limit = self._limits.max_waiting_per_tenant
            whose = "of yours"
            num_grants = queue.num_tenants()
        elif len(queue) >= self._limits.max_waiting[priority]:
            limit = self._limits.max_waiting[priority]
            whose = "on this node"
            num_grants = 1
        else:
            return
        expected_s = min((grant_interval_s or 0.0) * num_grants, _LONGEST_RETRY_S)
        retry_after_s = max(expected_s, self._limits.retry_after_s)
        class_name = priority.name.lower()
        raise QueueFullError(
            f"{limit} {class_name} requests {whose} wait already: "
            f"try again in {retry_after_s:.3g} s",
            metadata={"priority": class_name, "max_waiting": str(limit)},
            retry_after_s=retry_after_s,
        )

    def push(self, request: Request, now_s: float, *, start_by_s: float | None = None) -> int:
        """Queues a request there is room for; returns how many of its class go before it.

        After `start_by_s` it is not worth starting any more; None: it always is.
        """
        queue = self._classes[request.priority]
        if not len(queue):
            self._unserved_since_s[request.priority] = now_s
        queue.push(request)
        self._requests[request.ticket_id] = request
        if start_by_s is not None:
            self._start_limits.add(request.ticket_id, start_by_s)
        return queue.position(request)

    def turns(self, now_s: float) -> list[Turn]:
        """Returns the classes that wait in the order of their turns: overdue ones first."""
        waiting = [priority for priority in Priority if self.num_waiting(priority)]
        due_s = {priority: self._due_s(priority) for priority in waiting}
        overdue = sorted(
            (due, priority) for priority, due in due_s.items() if due is not None and now_s >= due
        )
        first = [priority for _, priority in overdue]
        return [Turn(priority, is_overdue=True) for priority in first] + [
            Turn(priority, is_overdue=False) for priority in waiting if priority not in first
        ]

    def pop(
        self,
        priority: Priority,
        now_s: float,
        is_kept_from: Callable[[str], bool] | None = None,
    ) -> Request | None:
        """Removes the class's next request and charges its tenant.

        None when nothing waits, or only what a place is kept from (see ClassQueue.pop).
        """
        request = self._classes[priority].pop(is_kept_from)
        if request is not None:
            self._forget(request)
            self._unserved_since_s[priority] = now_s
        return request

    def remove(self, ticket_id: str) -> Request | None:
        """Takes a request out without a charge; None when it does not wait."""
        request = self._requests.get(ticket_id)
        if request is not None:
            self._classes[request.priority].remove(request)
            self._forget(request)
        return request

    def remove_late(self, now_s: float) -> list[Request]:
        """Takes out, without a charge, every request that is not worth starting any more."""
        late = [self._requests[ticket_id] for ticket_id in self._start_limits.passed(now_s)]
        for request in late:
            self.remove(request.ticket_id)
        return late

    def next_event_s(self, now_s: float) -> float | None:
        """Returns when a class falls due or a request gets late, after now; None: never."""
        times = [self._due_s(priority) for priority in Priority if self.num_waiting(priority)]
        times.append(self._start_limits.next_s())
        return min(
            (time_s for time_s in times if time_s is not None and time_s > now_s), default=None
        )

    def settle(self, request: Request, used_tokens: int) -> None:
        """Corrects what a granted request was charged."""
        self._classes[request.priority].settle(request, used_tokens)

    def keep(self, request: Request) -> None:
        """Leaves the charge of a granted request that never came back as it is."""
        self._classes[request.priority].keep(request)

    def _due_s(self, priority: Priority) -> float | None:
        aging_s = self._limits.aging_s.get(priority)
        return None if aging_s is None else self._unserved_since_s[priority] + aging_s

    def _forget(self, request: Request) -> None:
        del self._requests[request.ticket_id]
        self._start_limits.discard(request.ticket_id)
