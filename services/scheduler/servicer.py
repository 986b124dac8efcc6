"""Translates the SchedulerService protos to the dispatcher and back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import uuid4

import grpc
import structlog
from google.protobuf.duration_pb2 import Duration

from edgelora.adapter_names import AUTO
from edgelora.errors import AdapterNotFoundError, InvalidRequestError
from edgelora.v1 import scheduler_service_pb2 as pb
from edgelora.v1 import scheduler_service_pb2_grpc as rpc
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.generation_pb2 import PriorityClass
from edgelora.v1.routing_pb2 import Routing
from edgelora.v1.ticket_pb2 import Sealed, TenantClaim, Ticket
from services.chassis.claims import open_claim, seal_ticket
from services.chassis.sealing import Sealer
from services.chassis.tracing import current_span
from services.scheduler.acquisition import AcquisitionObserver, told
from services.scheduler.lanes import Lane, Lanes, Task
from services.scheduler.leases import Lease
from services.scheduler.pace import Answer
from services.scheduler.pressure.admission import Admitted, PressureAdmission
from services.scheduler.pressure.current import CurrentPressure
from services.scheduler.pressure.ladder import Serving
from services.scheduler.pressure.messages import restriction_message
from services.scheduler.request import Priority, Request
from services.scheduler.routing.auto_selection import AutoSelection

_Context = grpc.aio.ServicerContext[Any, Any]


class SchedulerServicer(rpc.SchedulerServiceServicer):
    """The gRPC face of the scheduler."""

    def __init__(
        self,
        lanes: Lanes,
        pressure: CurrentPressure,
        admission: PressureAdmission,
        auto: AutoSelection,
        sealer: Sealer,
        clock: Callable[[], float],
        *,
        ticket_s: float,
        observe: AcquisitionObserver | None = None,
    ) -> None:
        """`ticket_s`: how long a ticket is good for, whatever becomes of its lease."""
        self._lanes = lanes
        self._pressure = pressure
        self._admission = admission
        self._auto = auto
        self._sealer = sealer
        self._clock = clock
        self._ticket_s = ticket_s
        self._observe = observe

    async def Acquire(
        self, request: pb.AcquireRequest, context: _Context
    ) -> AsyncIterator[pb.AcquireResponse]:
        """Queued at once, then Granted when the request's turn has come.

        Queued comes again before Granted when the device got worse in between.
        """
        claim = self._open_claim(request.claim)
        priority = _priority(request.priority)
        _require_positive(request, "estimated_tokens")
        _require_positive(request, "max_output_tokens")
        lane = self._lanes.of_task(request.task)
        _require_no_auto(request, lane.task)
        with told(self._observe, lane.task, priority) as acquisition:
            asked_at_s = self._clock()
            # An overloaded node, or one without memory, answers at once, without asking the store.
            self._admission.require_class(priority)
            lane.schedule.require_room(priority, claim.tenant_id, asked_at_s)
            selections, routing, admitted = await self._admit(request, claim.tenant_id)
            acquisition.routing, acquisition.degradations = routing, admitted.degradations
            waiting = Request(
                ticket_id=uuid4().hex,
                tenant_id=claim.tenant_id,
                request_id=claim.request_id,
                priority=priority,
                estimated_tokens=_estimated_tokens(request, admitted.serving),
                max_output_tokens=admitted.serving.max_output_tokens,
                asked_at_s=asked_at_s,
                allowed_s=_seconds(request.remaining) if request.HasField("remaining") else None,
                num_resident=admitted.num_resident,
                digests=frozenset(adapter.digest for adapter in admitted.serving.adapters),
            )
            queued_at_s = self._clock()
            position = lane.dispatcher.submit(waiting)
            # A client that leaves while a response is on its way never resumes this generator; the
            # callback runs when the call is over, however it ends.
            context.add_done_callback(
                lambda _: lane.dispatcher.leave(waiting, was_delivered=False)  # type: ignore[arg-type]
            )
            yield _queued(position, admitted, routing)
            lease = await lane.dispatcher.wait(waiting)
            acquisition.wait_s = self._clock() - queued_at_s
            waited_from_s = queued_at_s - asked_at_s
            current_span().phase("wait", waited_from_s, waited_from_s + acquisition.wait_s)
            promised = admitted
            admitted = await self._admission.admit_again(request, selections, priority, promised)
            if admitted is not promised:
                acquisition.degradations = admitted.degradations
                yield _queued(0, admitted, routing)
            structlog.contextvars.bind_contextvars(
                ticket_id=waiting.ticket_id,
                worker=lease.worker,
                adapters=[adapter.digest for adapter in admitted.serving.adapters],
                queue_ms=round(acquisition.wait_s * 1000, 1),
            )
            yield self._granted(lane, lease, admitted.serving)
            lane.dispatcher.leave(waiting, was_delivered=True)

    async def Renew(self, request: pb.RenewRequest, context: _Context) -> pb.RenewResponse:
        """Extends the lease of the claim's tenant."""
        claim = self._open_claim(request.claim)
        lane = self._lanes.of_ticket(request.ticket_id)
        lane.dispatcher.renew(request.ticket_id, claim.tenant_id)
        return pb.RenewResponse(lease=_lease_duration(lane))

    async def Release(self, request: pb.ReleaseRequest, context: _Context) -> pb.ReleaseResponse:
        """Frees the place and settles the tokens served."""
        claim = self._open_claim(request.claim)
        used_tokens = request.num_prompt_tokens + request.num_output_tokens
        has_begun = request.HasField("time_to_first_token")
        answer = Answer(
            num_output_tokens=request.num_output_tokens,
            first_token_s=_seconds(request.time_to_first_token) if has_begun else None,
        )
        was_running = self._lanes.of_ticket(request.ticket_id).dispatcher.release(
            request.ticket_id, claim.tenant_id, used_tokens, answer
        )
        structlog.contextvars.bind_contextvars(was_running=was_running, used_tokens=used_tokens)
        return pb.ReleaseResponse()

    async def Cancel(self, request: pb.CancelRequest, context: _Context) -> pb.CancelResponse:
        """Takes a waiting request of the claim's tenant out of the queue."""
        claim = self._open_claim(request.claim)
        was_waiting = self._lanes.cancel(claim.tenant_id, request.request_id)
        return pb.CancelResponse(was_waiting=was_waiting)

    async def GetQueues(
        self, request: pb.GetQueuesRequest, context: _Context
    ) -> pb.GetQueuesResponse:
        """Counts what waits and what runs, and tells what the device's state takes away."""
        now_s = self._clock()
        schedules = [lane.schedule for lane in self._lanes.all()]
        return pb.GetQueuesResponse(
            queues=[
                pb.QueueStatus(
                    priority=PriorityClass.Name(priority),
                    num_waiting=sum(each.queue.num_waiting(priority) for each in schedules),
                    num_running=sum(each.leases.num_running(priority) for each in schedules),
                )
                for priority in Priority
            ],
            workers=[
                pb.WorkerStatus(
                    name=worker.name,
                    address=worker.address,
                    is_ready=worker.is_ready,
                    num_running=lane.schedule.leases.num_running_on(worker.name),
                    max_running=worker.max_running,
                    task=lane.task,  # type: ignore[arg-type]
                )
                for lane in self._lanes.all()
                for worker in lane.schedule.roster.all()
            ],
            restrictions=[
                restriction_message(restriction, now_s)
                for restriction in self._pressure.restrictions.active
            ],
        )

    async def _admit(
        self, request: pb.AcquireRequest, tenant_id: str
    ) -> tuple[Sequence[AdapterSelection], Routing | None, Admitted]:
        """Lets the router choose where it is asked to, and decides how the choice is served."""
        selections, routing = await self._auto.choose(request, tenant_id)
        try:
            return selections, routing, await self._admission.admit(request, selections)
        except AdapterNotFoundError:
            if routing is None:
                raise
        # The chosen adapter was deleted since the store listed it; the next list is without it.
        selections, routing = await self._auto.choose(request, tenant_id)
        return selections, routing, await self._admission.admit(request, selections)

    def _open_claim(self, sealed: Sealed) -> TenantClaim:
        claim = open_claim(self._sealer, sealed, self._clock())
        structlog.contextvars.bind_contextvars(
            tenant_id=claim.tenant_id, request_id=claim.request_id
        )
        return claim

    def _granted(self, lane: Lane, lease: Lease, serving: Serving) -> pb.AcquireResponse:
        granted = lease.request
        ticket = Ticket(
            ticket_id=granted.ticket_id,
            tenant_id=granted.tenant_id,
            request_id=granted.request_id,
            worker=lease.worker,
            adapters=serving.adapters,
            priority=PriorityClass.Name(granted.priority),
            max_output_tokens=serving.max_output_tokens,
            expires_at_boot_s=lease.granted_at_s + self._ticket_s,
            task=lane.task,  # type: ignore[arg-type]
        )
        return pb.AcquireResponse(
            granted=pb.Granted(
                ticket=seal_ticket(self._sealer, ticket),
                worker_address=lane.schedule.roster[lease.worker].address,
                ticket_id=granted.ticket_id,
                lease=_lease_duration(lane),
            )
        )


def _lease_duration(lane: Lane) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(round(lane.schedule.leases.lease_s * 1000))
    return duration


def _queued(position: int, admitted: Admitted, routing: Routing | None) -> pb.AcquireResponse:
    return pb.AcquireResponse(
        queued=pb.Queued(
            position=position,
            adapters=admitted.serving.adapters,
            degradations=admitted.degradations,
            routing=routing,
        )
    )


def _estimated_tokens(request: pb.AcquireRequest, serving: Serving) -> int:
    saved_tokens = request.max_output_tokens - serving.max_output_tokens
    return max(1, request.estimated_tokens - saved_tokens)


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def _priority(value: int) -> Priority:
    if value == PriorityClass.PRIORITY_CLASS_UNSPECIFIED:
        return Priority.INTERACTIVE
    if value not in set(Priority):
        raise InvalidRequestError(
            "priority must be interactive, background or batch", field="priority"
        )
    return Priority(value)


def _require_no_auto(request: pb.AcquireRequest, task: Task) -> None:
    if task is not Task.GENERATE and any(each.adapter == AUTO for each in request.adapters):
        raise InvalidRequestError(
            f"adapters[0].adapter must not be {AUTO}: only generations are routed",
            field="adapters[0].adapter",
        )


def _require_positive(request: pb.AcquireRequest, field: str) -> None:
    if getattr(request, field) < 1:
        raise InvalidRequestError(f"{field} must be at least 1", field=field)
