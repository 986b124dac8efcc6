"""The life of one accepted encoding: queue, ticket, worker, settlement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgelora.errors import (
    DeadlineExceededError,
    EdgeLoraError,
    InternalError,
    ServiceUnavailableError,
)
from edgelora.v1 import encoder_service_pb2 as worker_pb
from edgelora.v1.adapter_pb2 import ResolvedAdapter
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.scheduler_service_pb2 import AcquireRequest, Granted, ReleaseRequest
from services.chassis.channel import call_metadata
from services.gateway.authentication import Caller
from services.gateway.encoding.ended import EndedEncoding
from services.gateway.encoding.request import EncodingRequest
from services.gateway.queue_turn import QueueTurn
from services.gateway.tenant_messages import duration
from services.gateway.upstream import Upstream, errors_of_worker, worker_lost

EncoderResponse = worker_pb.EncoderServiceClassifyResponse | worker_pb.EncoderServiceEmbedResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A whole answer."""

    response: EncoderResponse
    """Of the kind the operation has."""
    adapter: ResolvedAdapter | None
    """What encoded it; None: the base model."""


class EncodingRun:
    """Runs one request. `end` must follow `run`, however that ended."""

    def __init__(
        self,
        caller: Caller,
        request: EncodingRequest,
        upstream: Upstream,
        *,
        require_active: Callable[[Caller], None],
        budget_s: float,
    ) -> None:
        self._caller = caller
        self._request = request
        self._upstream = upstream
        self._require_active = require_active
        self._clock = asyncio.get_running_loop().time
        self._accepted_s = self._clock()
        self._deadline_s = self._accepted_s + budget_s
        self._ticket_s: float | None = None
        self._answered_s: float | None = None
        self._turn: QueueTurn | None = None
        self.adapter_digests: list[str] = []
        self.num_tokens = 0
        """What the worker counted; while it has not answered, what the request likely costs."""
        self.engine_s = 0.0
        """Share of the time the encoder's steps took."""

    @property
    def queue_s(self) -> float | None:
        """Seconds from acceptance to the ticket, None before it."""
        return None if self._ticket_s is None else self._ticket_s - self._accepted_s

    async def run(self) -> Encoded:
        """Returns the answer.

        Raises WorkerLostError when the worker goes away, and what scheduler and worker raise.
        """
        scheduler = await self._upstream.scheduler()
        self._turn = QueueTurn(scheduler, self._acquire_request(), self._remaining_s())
        queued = await self._turn.queued()
        self.adapter_digests = [adapter.digest for adapter in queued.adapters]
        granted = await self._turn.granted()
        self._ticket_s = self._clock()
        self._require_active(self._caller)
        response = await self._encode(granted)
        self._answered_s = self._clock()
        self._require_active(self._caller)
        return Encoded(response=response, adapter=queued.adapters[0] if queued.adapters else None)

    async def end(self) -> None:
        """Leaves the queue or settles the lease."""
        if self._turn is None:
            return
        served = ReleaseRequest(num_prompt_tokens=self.num_tokens)
        if self._ticket_s is not None and self._answered_s is not None:
            served.time_to_first_token.CopyFrom(duration(self._answered_s - self._ticket_s))
        await self._turn.end(self._caller.request_id, served)

    def ended(self, error: BaseException | None) -> EndedEncoding:
        """What there is to tell of it now that `run` is over."""
        if error is not None and not isinstance(error, EdgeLoraError):
            error = InternalError("an internal error occurred")
        return EndedEncoding(
            tenant_id=self._caller.tenant.tenant_id,
            priority=self._request.priority,
            adapter_digests=tuple(self.adapter_digests),
            queue_s=self.queue_s,
            total_s=self._clock() - self._accepted_s,
            num_prompt_tokens=self.num_tokens,
            num_output_tokens=0,
            engine_s=self.engine_s,
            error=error,
            operation=self._request.operation,
            num_texts=len(self._request.texts),
        )

    async def _encode(self, granted: Granted) -> EncoderResponse:
        try:
            worker = await self._upstream.encoder(granted.worker_address)
        except ServiceUnavailableError as error:
            raise worker_lost() from error
        # Who leaves now has made the worker compute.
        self.num_tokens = self._request.estimated_tokens
        try:
            with errors_of_worker():
                response = await self._call(worker, granted)
        except DeadlineExceededError:
            raise  # as one who leaves
        except EdgeLoraError:
            self.num_tokens = 0
            raise
        self.num_tokens = response.usage.num_tokens
        self.engine_s = response.engine_time.ToMicroseconds() / 1_000_000
        return response

    async def _call(self, worker: Any, granted: Granted) -> EncoderResponse:
        if self._request.operation == "classify":
            method = worker.Classify
            message: Any = worker_pb.EncoderServiceClassifyRequest(
                ticket=granted.ticket,
                texts=self._request.texts,
                top_labels=self._request.top_labels,
            )
        else:
            method = worker.Embed
            message = worker_pb.EncoderServiceEmbedRequest(
                ticket=granted.ticket, texts=self._request.texts
            )
        response: EncoderResponse = await method(
            message, timeout=self._remaining_s(), metadata=call_metadata()
        )
        return response

    def _acquire_request(self) -> AcquireRequest:
        return AcquireRequest(
            claim=self._caller.claim,
            adapters=self._request.adapters,
            priority=self._request.priority,  # type: ignore[arg-type]
            estimated_tokens=self._request.estimated_tokens,
            max_output_tokens=1,  # there are none; a place in the queue asks for one at least
            user=self._request.user,
            remaining=duration(self._remaining_s()),
            task=Task.TASK_ENCODE,
        )

    def _remaining_s(self) -> float:
        return max(0.0, self._deadline_s - self._clock())
