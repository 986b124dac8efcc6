"""The whole policy in one place: queue, places and leases, driven by a clock that is passed in."""

from __future__ import annotations

from edgelora.errors import ServiceUnavailableError
from services.scheduler.leases import Lease, LeaseTable
from services.scheduler.placement import WorkerLoad, choose_worker
from services.scheduler.places import PlaceLimits
from services.scheduler.request import Priority, Request
from services.scheduler.request_queue import RequestQueue
from services.scheduler.roster import Roster


class Schedule:
    """Decides which request runs next and where. Never more leases than places."""

    def __init__(
        self,
        queue: RequestQueue,
        leases: LeaseTable,
        roster: Roster,
        *,
        load_factor: float,
        no_worker_limit_s: float,
    ) -> None:
        self.queue = queue
        self.leases = leases
        self.roster = roster
        self._load_factor = load_factor
        self._no_worker_limit_s = no_worker_limit_s
        self._place_limits = PlaceLimits()

    def limit_places(self, limits: PlaceLimits) -> None:
        """Changes how many places may be taken from now on."""
        self._place_limits = limits

    def require_room(self, priority: Priority, tenant_id: str, now_s: float) -> None:
        """Raises QueueFullError or ServiceUnavailableError when a request could only be refused."""
        if self.is_stranded(now_s):
            raise self.stranded_error()
        self.queue.require_room(priority, tenant_id)

    def submit(self, request: Request, now_s: float) -> int:
        """Queues a request; returns how many of its class go before it.

        Raises QueueFullError or ServiceUnavailableError.
        """
        self.require_room(request.priority, request.tenant_id, now_s)
        return self.queue.push(request, now_s)

    def grant_next(self, now_s: float) -> Lease | None:
        """Gives the next request a place; None when nothing waits or no ready worker has one."""
        loads = self._loads()
        if not any(load.has_place for load in loads):
            return None
        request = self.queue.pop(now_s, self._granted_classes())
        if request is None:
            return None
        worker = choose_worker(loads, request.num_resident, load_factor=self._load_factor)
        assert worker is not None, "a worker with a place was found above"
        return self.leases.grant(request, worker, now_s)

    def release(self, ticket_id: str, tenant_id: str, used_tokens: int, now_s: float) -> bool:
        """Frees a place and settles its tokens; False when there is no such lease (any more).

        A lease that expires keeps its whole estimate charged: crashing earns no refund.
        """
        lease = self.leases.release(ticket_id, tenant_id, now_s)
        if lease is None:
            return False
        self.queue.settle(lease.request, used_tokens)
        return True

    def is_stranded(self, now_s: float) -> bool:
        """Whether no worker has been ready for longer than requests may hope for one."""
        since_s = self.roster.none_ready_since_s
        return since_s is not None and now_s >= since_s + self._no_worker_limit_s

    def stranded_error(self) -> ServiceUnavailableError:
        """Returns what requests are told while no worker is ready."""
        return ServiceUnavailableError(
            "no inference worker is ready: try again once it is running",
            retry_after_s=self._no_worker_limit_s,
        )

    def next_event_s(self) -> float | None:
        """Returns when something changes by the clock alone; None when nothing does."""
        times = [self.leases.next_expiry_s()]
        if len(self.queue) and self.roster.none_ready_since_s is not None:
            times.append(self.roster.none_ready_since_s + self._no_worker_limit_s)
        return min((time_s for time_s in times if time_s is not None), default=None)

    def _loads(self) -> list[WorkerLoad]:
        return [
            WorkerLoad(
                name=worker.name,
                num_running=self.leases.num_running_on(worker.name),
                max_running=self._place_limits.places_of(worker.max_running),
            )
            for worker in self.roster.ready()
        ]

    def _granted_classes(self) -> set[Priority]:
        """The classes that may be given a place now."""
        max_lower = self._place_limits.max_lower_running
        num_lower = len(self.leases) - self.leases.num_running(Priority.INTERACTIVE)
        if max_lower is not None and num_lower >= max_lower:
            return {Priority.INTERACTIVE}
        return set(Priority)
