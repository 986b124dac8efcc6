"""Joins the schedule to asyncio: wakes waiting calls when their turn comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from edgelora.errors import CancelledRequestError, EdgeLoraError, TicketExpiredError
from services.chassis.logs import get_logger
from services.scheduler.leases import Lease
from services.scheduler.pace import Answer
from services.scheduler.places import PlaceLimits
from services.scheduler.request import Request
from services.scheduler.schedule import Schedule


class Dispatcher:
    """Hands out places as they become free. Lives on one event loop and needs no locks."""

    def __init__(self, schedule: Schedule, clock: Callable[[], float]) -> None:
        self._schedule = schedule
        self._clock = clock
        self._outcomes: dict[str, asyncio.Future[Lease | EdgeLoraError]] = {}
        self._changed = asyncio.Event()

    def submit(self, request: Request) -> int:
        """Queues a request; returns how many of its class go before it.

        Raises QueueFullError, DeadlineExceededError or ServiceUnavailableError. The caller must
        `leave` in the end.
        """
        position = self._schedule.submit(request, self._clock())
        self._outcomes[request.ticket_id] = asyncio.get_running_loop().create_future()
        self._advance_soon()
        return position

    async def wait(self, request: Request) -> Lease:
        """Returns the lease once the request's turn has come.

        Raises CancelledRequestError when `cancel` took it out, DeadlineExceededError when no place
        came free in time, ServiceUnavailableError when no worker became ready.
        """
        outcome = await self._outcomes[request.ticket_id]
        if isinstance(outcome, EdgeLoraError):
            raise outcome
        return outcome

    def leave(self, request: Request, *, was_delivered: bool) -> None:
        """Ends a call: a waiting request leaves the queue, a lease nobody got is given back.

        Calling it again changes nothing.
        """
        if self._outcomes.pop(request.ticket_id, None) is None or was_delivered:
            return
        if self._schedule.queue.remove(request.ticket_id) is None:
            self._schedule.release(request.ticket_id, request.tenant_id, 0, self._clock())
        self._advance_soon()

    def cancel(self, tenant_id: str, request_id: str) -> bool:
        """Takes the tenant's requests of that name out of the queue; False when none waited."""
        requests = self._schedule.queue.find(tenant_id, request_id)
        for request in requests:
            self._schedule.queue.remove(request.ticket_id)
            self._conclude(request, CancelledRequestError("the request was cancelled"))
        return bool(requests)

    def renew(self, ticket_id: str, tenant_id: str) -> Lease:
        """Extends a lease. Raises TicketExpiredError when it is unknown, ended or another's."""
        lease = self._schedule.leases.renew(ticket_id, tenant_id, self._clock())
        if lease is None:
            raise TicketExpiredError("the lease is unknown or has ended: send the request again")
        return lease

    def release(
        self, ticket_id: str, tenant_id: str, used_tokens: int, answer: Answer | None = None
    ) -> bool:
        """Frees a lease's place and settles its tokens; False when there is no such lease."""
        was_running = self._schedule.release(
            ticket_id, tenant_id, used_tokens, self._clock(), answer
        )
        self._advance_soon()
        return was_running

    def set_ready(self, worker: str, is_ready: bool) -> None:
        """Notes what a worker's health says."""
        self._schedule.roster.set_ready(worker, is_ready, self._clock())
        self._advance_soon()

    def limit_places(self, limits: PlaceLimits) -> None:
        """Changes how many places may be taken from now on."""
        self._schedule.limit_places(limits)
        self._advance_soon()

    def advance(self) -> float | None:
        """Does everything that is due: ends leases, refuses whom no place helps, grants places.

        Returns when something falls due by the clock alone; None when nothing does.
        """
        now_s = self._clock()
        for lease in self._schedule.expire(now_s):
            get_logger().warning(
                "lease_expired",
                ticket_id=lease.request.ticket_id,
                tenant_id=lease.request.tenant_id,
                request_id=lease.request.request_id,
                worker=lease.worker,
            )
        for request, error in self._schedule.remove_late(now_s):
            self._conclude(request, error)
        while (granted := self._schedule.grant_next(now_s)) is not None:
            self._conclude(granted.request, granted)
        if len(self._schedule.queue) and self._schedule.is_stranded(now_s):
            self.refuse_all(self._schedule.stranded_error())
        return self._schedule.next_event_s(now_s)

    def refuse_all(self, error: EdgeLoraError) -> None:
        """Ends every waiting request with the error; those that run go on."""
        waiting = self._schedule.queue.waiting()
        get_logger().warning(
            "waiting_requests_refused", num_requests=len(waiting), cause=error.message
        )
        for request in waiting:
            self._schedule.queue.remove(request.ticket_id)
            self._conclude(request, error)

    async def run(self) -> None:
        """Advances whenever something changed or falls due, for ever."""
        while True:
            self._changed.clear()
            next_s = self.advance()
            timeout_s = None if next_s is None else max(0.0, next_s - self._clock())
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()

    def _advance_soon(self) -> None:
        self._changed.set()

    def _conclude(self, request: Request, outcome: Lease | EdgeLoraError) -> None:
        future = self._outcomes.get(request.ticket_id)
        if future is not None and not future.done():
            future.set_result(outcome)
