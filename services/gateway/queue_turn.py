"""One request's turn at the scheduler: from its place in the queue to the release of its lease."""

from __future__ import annotations

import asyncio
from typing import Any

from edgelora.errors import EdgeLoraError, InternalError
from edgelora.v1 import scheduler_service_pb2 as pb
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.channel import call_metadata
from services.chassis.logs import get_logger
from services.gateway.upstream import errors_of

_END_S = 2.0
_RENEWALS_PER_LEASE = 3


class QueueTurn:
    """Waits for a ticket, keeps it alive, and gives it back whatever happened.

    A task of its own reads the scheduler's answers: cancelling a read would cancel the call, and
    lose a ticket that is already on its way.
    """

    def __init__(self, stub: Any, request: pb.AcquireRequest, timeout_s: float) -> None:
        self._stub = stub
        self._claim: Sealed = request.claim
        loop = asyncio.get_running_loop()
        self._queued: asyncio.Future[pb.Queued] = loop.create_future()
        self._granted: asyncio.Future[pb.Granted] = loop.create_future()
        self._call = stub.Acquire(request, timeout=timeout_s, metadata=call_metadata())
        self._reader = asyncio.create_task(self._read())
        self._renewal: asyncio.Task[None] | None = None
        self.changed: pb.Queued | None = None
        """What is served since the device got worse in the wait; None: what `queued` said."""

    async def queued(self) -> pb.Queued:
        """Returns the place in the queue. Raises what the scheduler raised."""
        return await asyncio.shield(self._queued)

    async def granted(self) -> pb.Granted:
        """Returns the ticket when the turn has come, and keeps its lease alive from then on.

        Raises what the scheduler raised.
        """
        granted = await asyncio.shield(self._granted)
        self._renewal = asyncio.create_task(self._renew(granted))
        return granted

    async def end(self, request_id: str, served: pb.ReleaseRequest) -> None:
        """Leaves the queue, or releases the lease with what was really `served`."""
        if self._renewal is not None:
            self._renewal.cancel()
        try:
            if not self._granted.done():
                await self._leave_queue(request_id)
            if self._has_ticket():
                await self._release(served)
        finally:
            self._call.cancel()

    async def _read(self) -> None:
        error: EdgeLoraError
        try:
            with errors_of("scheduler"):
                async for response in self._call:
                    if response.WhichOneof("event") == "granted":
                        self._granted.set_result(response.granted)
                        return
                    if self._queued.done():
                        self.changed = response.queued
                    else:
                        self._queued.set_result(response.queued)
            error = InternalError("the scheduler ended the wait without a ticket")
        except EdgeLoraError as failure:
            error = failure
        for future in (self._queued, self._granted):
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen: nobody may be waiting any more

    async def _renew(self, granted: pb.Granted) -> None:
        request = pb.RenewRequest(ticket_id=granted.ticket_id, claim=self._claim)
        pause_s = max(0.1, granted.lease.ToTimedelta().total_seconds() / _RENEWALS_PER_LEASE)
        while True:
            await asyncio.sleep(pause_s)
            try:
                with errors_of("scheduler"):
                    await self._stub.Renew(request, timeout=pause_s, metadata=call_metadata())
            except EdgeLoraError as error:
                # The stream does not go through the scheduler: it outlives a restart of it.
                get_logger().warning("lease_not_renewed", cause=type(error).__name__)

    async def _leave_queue(self, request_id: str) -> None:
        request = pb.CancelRequest(claim=self._claim, request_id=request_id)
        try:
            with errors_of("scheduler"):
                await self._stub.Cancel(request, timeout=_END_S, metadata=call_metadata())
            # Either the wait has ended now, or its ticket was on the way and is here in a moment.
            await asyncio.wait([self._reader], timeout=_END_S)
        except EdgeLoraError as error:
            get_logger().warning("queue_not_left", cause=type(error).__name__)

    async def _release(self, served: pb.ReleaseRequest) -> None:
        request = pb.ReleaseRequest(ticket_id=self._granted.result().ticket_id, claim=self._claim)
        request.MergeFrom(served)
        try:
            with errors_of("scheduler"):
                await self._stub.Release(request, timeout=_END_S, metadata=call_metadata())
        except EdgeLoraError as error:
            # The lease expires by itself.
            get_logger().warning("lease_not_released", cause=type(error).__name__)

    def _has_ticket(self) -> bool:
        return (
            self._granted.done()
            and not self._granted.cancelled()
            and self._granted.exception() is None
        )
