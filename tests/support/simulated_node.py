"""A node in simulated time: the real schedule, and requests that take their time in their places.

Nothing here waits for a clock: events are taken from a heap in order of time, so that a minute of
load takes a moment and gives the same figures each time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from edgelora.errors import DeadlineExceededError, QueueFullError
from services.scheduler.leases import Lease
from services.scheduler.pace import Answer
from services.scheduler.request import Request
from services.scheduler.schedule import Schedule


@dataclass(kw_only=True)
class Work:
    """One request: what is asked, and how long it takes once it has a place."""

    request: Request
    first_token_s: float = 0.1
    token_s: float = 0.02
    num_output_tokens: int = 50
    on_end: Callable[[float], None] = lambda now_s: None
    """Called with the time when it has ended, whether answered or refused."""

    @property
    def lease_s(self) -> float:
        """How long it holds its place."""
        return self.first_token_s + (self.num_output_tokens - 1) * self.token_s


@dataclass
class SimulatedNode:
    """Runs arrivals through a schedule until a given time."""

    schedule: Schedule
    now_s: float = 0.0
    waits_s: dict[str, list[float]] = field(default_factory=dict)
    """Tenant -> time from the request to the first token, for each answered request."""
    served_tokens: Counter[str] = field(default_factory=Counter)
    """Tenant -> estimated tokens of its ended requests."""
    ends: Counter[str] = field(default_factory=Counter)
    """How requests ended: answered, refused or late."""
    max_leases: int = 0
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)
    _works: dict[str, Work] = field(default_factory=dict)

    def at(self, time_s: float, event: Callable[[], None]) -> None:
        """Does something at a time."""
        heapq.heappush(self._events, (time_s, next(self._numbers), event))

    def submit(self, work: Work) -> None:
        """Sends a request now."""
        try:
            self.schedule.submit(work.request, self.now_s)
        except (QueueFullError, DeadlineExceededError) as error:
            self.ends["late" if isinstance(error, DeadlineExceededError) else "refused"] += 1
            work.on_end(self.now_s)
            return
        self._works[work.request.ticket_id] = work

    def run(self, until_s: float) -> None:
        """Handles every event up to the time."""
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, event = heapq.heappop(self._events)
            event()
            self._advance()

    def _advance(self) -> None:
        for request, _ in self.schedule.remove_late(self.now_s):
            self.ends["late"] += 1
            self._works.pop(request.ticket_id).on_end(self.now_s)
        while (lease := self.schedule.grant_next(self.now_s)) is not None:
            self._start(lease)
        self.max_leases = max(self.max_leases, len(self.schedule.leases))

    def _start(self, lease: Lease) -> None:
        work = self._works.pop(lease.request.ticket_id)
        wait_s = self.now_s - lease.request.asked_at_s + work.first_token_s
        self.waits_s.setdefault(lease.request.tenant_id, []).append(wait_s)
        self.at(self.now_s + work.lease_s, lambda: self._end(lease, work))

    def _end(self, lease: Lease, work: Work) -> None:
        request = lease.request
        answer = Answer(num_output_tokens=work.num_output_tokens, first_token_s=work.first_token_s)
        self.schedule.release(
            request.ticket_id, request.tenant_id, request.estimated_tokens, self.now_s, answer
        )
        self.served_tokens[request.tenant_id] += request.estimated_tokens
        self.ends["answered"] += 1
        work.on_end(self.now_s)


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def jain_index(values: list[float]) -> float:
    """Fairness after Jain, Chiu and Hawe (1984): 1 when all are equal, 1/n when one has all."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))
