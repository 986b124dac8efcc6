"""Drops what the workers keep of a tenant's conversations."""

from __future__ import annotations

import asyncio
from typing import Any

from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.inference_service_pb2 import ForgetSessionsRequest
from edgelora.v1.scheduler_service_pb2 import GetQueuesRequest
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.channel import call_metadata
from services.gateway.upstream import Upstream, errors_of

_ANSWER_S = 10.0
"""Longest wait for a worker, which answers after the step it is in."""


class SessionMemory:
    """Asks every worker, because a conversation may have been on any of them."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def forget(self, claim: Sealed, session: str) -> int:
        """Returns how many conversations were dropped; an empty `session` is all of the tenant's.

        Raises ServiceUnavailableError when one of the workers does not answer; the others have
        dropped theirs then.
        """
        scheduler = await self._upstream.scheduler()
        with errors_of("scheduler"):
            queues = await scheduler.GetQueues(
                GetQueuesRequest(), timeout=_ANSWER_S, metadata=call_metadata()
            )
        request = ForgetSessionsRequest(claim=claim, session=session)
        answers = await asyncio.gather(
            *(
                self._ask(worker.address, request)
                for worker in queues.workers
                if worker.task == Task.TASK_GENERATE
            ),
            return_exceptions=True,
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return sum(answer for answer in answers if isinstance(answer, int))

    async def _ask(self, address: str, request: ForgetSessionsRequest) -> int:
        worker: Any = await self._upstream.worker(address)
        with errors_of("worker"):
            response = await worker.ForgetSessions(
                request, timeout=_ANSWER_S, metadata=call_metadata()
            )
        return int(response.num_forgotten)
