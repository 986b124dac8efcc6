"""The whole policy in one place: queue, places and leases, driven by a clock that is passed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgelora.errors import DeadlineExceededError, ServiceUnavailableError
from services.scheduler.leases import Lease, LeaseTable
from services.scheduler.pace import Answer, Estimate, Pace
from services.scheduler.placement import WorkerLoad, choose_worker
from services.scheduler.places import PlaceLimits, num_free_places
from services.scheduler.request import Priority, Request
from services.scheduler.request_queue import RequestQueue, Turn
from services.scheduler.reserve import Company, kept_places
from services.scheduler.roster import Roster


class Schedule:
    """Decides which request runs next and where. Never more leases than places allow."""

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
        self._company = Company()
        self._paces = {priority: Pace() for priority in Priority}
        self.num_expired = 0
        """Leases that ended without a release, since the start."""

    def limit_places(self, limits: PlaceLimits) -> None:
        """Changes how many places may be taken from now on."""
        self._place_limits = limits

    def require_room(self, priority: Priority, tenant_id: str, now_s: float) -> None:
        """Raises QueueFullError or ServiceUnavailableError when a request could only be refused."""
        if self.is_stranded(now_s):
            raise self.stranded_error()
        estimate = self._paces[priority].estimate(now_s)
        num_places = self._num_places()
        interval_s = estimate.lease_s / num_places if estimate and num_places else None
        self.queue.require_room(priority, tenant_id, grant_interval_s=interval_s)

    def submit(self, request: Request, now_s: float) -> int:
        """Queues a request; returns how many of its class go before it.

        Raises QueueFullError, ServiceUnavailableError, and DeadlineExceededError when even the
        shortest answer it is likely to give is not expected in time.
        """
        self.require_room(request.priority, request.tenant_id, now_s)
        deadline_s = request.deadline_s
        if deadline_s is None:
            position = self.queue.push(request, now_s)
        else:
            position = self._push_in_time(request, deadline_s, now_s)
        if request.priority is Priority.INTERACTIVE:
            self._company.note(request.tenant_id, now_s)
        return position

    def remove_late(self, now_s: float) -> list[tuple[Request, DeadlineExceededError]]:
        """Takes out, without a charge, the waiting requests that no place would help in time."""
        return [
            (request, _waited_too_long(request, now_s)) for request in self.queue.remove_late(now_s)
        ]

    def grant_next(self, now_s: float) -> Lease | None:
        """Gives the next request a place; None when nothing waits or no ready worker has one.

        `remove_late` with the same time goes before.
        """
        for turn in self.queue.turns(now_s):
            loads = self._loads(turn)
            if not any(load.num_free for load in loads):
                continue
            is_kept_from = self._keeper_of_last_places(turn.priority, loads, now_s)
            request = self.queue.pop(turn.priority, now_s, is_kept_from)
            if request is None:
                continue
            worker = choose_worker(loads, request.num_resident, load_factor=self._load_factor)
            assert worker is not None, "a worker with a place was found above"
            return self.leases.grant(request, worker, now_s)
        return None

    def release(
        self,
        ticket_id: str,
        tenant_id: str,
        used_tokens: int,
        now_s: float,
        answer: Answer | None = None,
    ) -> bool:
        """Frees a place and settles its tokens; False when there is no such lease (any more).

        A lease that expires keeps its whole estimate charged: crashing earns no refund. Estimates
        learn from `answer`; None when the request never reached its worker.
        """
        lease = self.leases.release(ticket_id, tenant_id, now_s)
        if lease is None:
            return False
        self.queue.settle(lease.request, used_tokens)
        if answer is not None:
            pace = self._paces[lease.request.priority]
            pace.record(answer, now_s - lease.granted_at_s, now_s)
        return True

    def expire(self, now_s: float) -> list[Lease]:
        """Ends every lease whose time is over; its estimate stays charged."""
        ended = self.leases.expire(now_s)
        self.num_expired += len(ended)
        for lease in ended:
            self.queue.keep(lease.request)
        return ended

    def is_stranded(self, now_s: float) -> bool:
        """Whether no worker has been ready for longer than requests may hope for one."""
        since_s = self.roster.none_ready_since_s
        return since_s is not None and now_s >= since_s + self._no_worker_limit_s

    def stranded_error(self) -> ServiceUnavailableError:
        """Returns what requests are told while no worker is ready."""
        return ServiceUnavailableError(
            "no worker that does this is ready: try again once one is running",
            retry_after_s=self._no_worker_limit_s,
        )

    def next_event_s(self, now_s: float) -> float | None:
        """Returns when something changes by the clock alone, after now; None when nothing does."""
        times = [self.leases.next_expiry_s()]
        if len(self.queue):
            times += [self.queue.next_event_s(now_s), self._company.next_change_s(now_s)]
            if self.roster.none_ready_since_s is not None:
                times.append(self.roster.none_ready_since_s + self._no_worker_limit_s)
        return min((time_s for time_s in times if time_s is not None), default=None)

    def _push_in_time(self, request: Request, deadline_s: float, now_s: float) -> int:
        estimate = self._paces[request.priority].estimate(now_s)
        answer_s = estimate.shortest_answer_s(request.max_output_tokens) if estimate else 0.0
        position = self.queue.push(request, now_s, start_by_s=deadline_s - answer_s)
        wait_s = self._expected_wait_s(request, position, estimate, now_s)
        if now_s + wait_s + answer_s >= deadline_s:
            self.queue.remove(request.ticket_id)
            raise _too_late(wait_s=wait_s, answer_s=answer_s, left_s=max(0.0, deadline_s - now_s))
        return position

    def _loads(self, turn: Turn) -> list[WorkerLoad]:
        is_open = turn.priority is Priority.INTERACTIVE or self._may_run_lower()
        loads = []
        for worker in self.roster.ready():
            running = self.leases.running_on(worker.name)
            places = self._place_limits.places_of(worker.max_running)
            num_free = num_free_places(places, running, turn.priority, is_overdue=turn.is_overdue)
            loads.append(
                WorkerLoad(
                    name=worker.name,
                    num_running=running.total(),
                    max_running=places,
                    num_free=num_free if is_open else 0,
                )
            )
        return loads

    def _may_run_lower(self) -> bool:
        max_lower = self._place_limits.max_lower_running
        num_lower = len(self.leases) - self.leases.num_running(Priority.INTERACTIVE)
        return max_lower is None or num_lower < max_lower

    def _keeper_of_last_places(
        self, priority: Priority, loads: Sequence[WorkerLoad], now_s: float
    ) -> Callable[[str], bool] | None:
        """Returns who may not take the places that are left; None when anybody may.

        Background and batch have no such places: nobody waits for their first token.
        """
        num_free = sum(load.num_free for load in loads)
        num_kept = kept_places(sum(load.max_running for load in loads))
        if priority is not Priority.INTERACTIVE or num_free > num_kept:
            return None
        return lambda tenant_id: (
            self.leases.num_running_of(priority, tenant_id) > 0
            and self._company.has_company(tenant_id, now_s)
        )

    def _expected_wait_s(
        self, request: Request, position: int, estimate: Estimate | None, now_s: float
    ) -> float:
        """The time to a grant; 0 when a place is free, or kept for it, or nothing is known."""
        priority = request.priority
        loads = self._loads(Turn(priority, is_overdue=False))
        num_free = sum(load.num_free for load in loads)
        num_places = self._num_places()
        if estimate is None or not num_places or position < num_free:
            return 0.0
        is_kept_from = self._keeper_of_last_places(priority, loads, now_s)
        if num_free and is_kept_from is not None and not is_kept_from(request.tenant_id):
            return 0.0
        num_better = sum(self.queue.num_waiting(other) for other in Priority if other < priority)
        return estimate.wait_s(position + num_better, num_places)

    def _num_places(self) -> int:
        return sum(
            self._place_limits.places_of(worker.max_running) for worker in self.roster.ready()
        )


def _too_late(*, wait_s: float, answer_s: float, left_s: float) -> DeadlineExceededError:
    return _deadline_error(
        f"the wait for a place is expected to take {wait_s:.3g} s and the shortest likely answer "
        f"{answer_s:.3g} s, {left_s:.3g} s are allowed",
        expected_s=wait_s + answer_s,
        allowed_s=left_s,
    )


def _waited_too_long(request: Request, now_s: float) -> DeadlineExceededError:
    waited_s = now_s - request.asked_at_s
    allowed_s = request.allowed_s or 0.0
    return _deadline_error(
        f"no place came free in {waited_s:.3g} s, and what is left of the {allowed_s:.3g} s "
        "allowed is too short for an answer",
        expected_s=waited_s,
        allowed_s=allowed_s,
    )


def _deadline_error(text: str, *, expected_s: float, allowed_s: float) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"{text}: allow more time, ask for less, or try again when the node is less busy",
        metadata={"expected_s": f"{expected_s:.3f}", "allowed_s": f"{allowed_s:.3f}"},
    )
