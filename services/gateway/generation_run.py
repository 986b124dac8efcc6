"""The life of one accepted request: queue, ticket, worker, events, settlement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgelora.errors import EdgeLoraError, InternalError, ServiceUnavailableError
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.degradation_pb2 import DegradationPreference, DegradationStep
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.generation_pb2 import Delta, GenerationInput, GenerationOptions, Usage
from edgelora.v1.inference_service_pb2 import (
    Finished,
    InferenceServiceGenerateRequest,
    InferenceServiceGenerateResponse,
)
from edgelora.v1.scheduler_service_pb2 import AcquireRequest, Granted, Queued, ReleaseRequest
from services.chassis.channel import call_metadata
from services.gateway.authentication import Caller
from services.gateway.ended_generation import EndedGeneration
from services.gateway.queue_turn import QueueTurn
from services.gateway.running_strengths import RunningStrengths
from services.gateway.tenant_messages import duration
from services.gateway.tool_calls import ToolCallReader
from services.gateway.upstream import Upstream, errors_of_worker, worker_lost

_RECHECK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """What a tenant asked for, validated."""

    input: GenerationInput
    adapters: Sequence[AdapterSelection]
    options: GenerationOptions
    priority: int
    max_output_tokens: int
    estimated_tokens: int
    """What it will likely cost; orders the scheduler's queues."""
    reserved_tokens: int
    """What it may cost at most; held against the tenant's quota."""
    user: str
    """Who of the tenant's people asks, may be empty. For the store's forecasts; never logged."""
    routing_text: str
    """What the router chooses by; empty where the request chose itself. Never logged."""
    degradation: DegradationPreference
    """What to do while the device is under pressure."""
    may_call_tools: bool = False
    """Whether the answer may hold calls of tools."""
    session: str = ""
    """Name of the conversation whose computed tokens are kept; empty keeps none."""


class GenerationRun:
    """Runs one request. `run` emits its events; `end` must follow, however `run` ended."""

    def __init__(
        self,
        caller: Caller,
        request: GenerationRequest,
        upstream: Upstream,
        *,
        require_active: Callable[[Caller], None],
        emit: Callable[[pb.GenerationEvent], Awaitable[None]],
        deadline_s: float,
    ) -> None:
        self._caller = caller
        self._request = request
        self._upstream = upstream
        self._require_active = require_active
        self._emit = emit
        self._deadline_s = deadline_s
        self._clock = asyncio.get_running_loop().time
        self._accepted_s = self._clock()
        self._ticket_s: float | None = None
        self._first_token_s: float | None = None
        self._turn: QueueTurn | None = None
        self._worker_call: Any = None
        self._is_reading = False
        self._is_stopped = False
        self._tool_calls = ToolCallReader() if request.may_call_tools else None
        self.strengths = RunningStrengths()
        self.adapter_digests: list[str] = []
        self.degradations: list[str] = []
        """Steps and their rules, for the log."""
        self.num_prompt_tokens = 0
        self.num_output_tokens = 0
        self.engine_s = 0.0
        """Share of the time the engine's steps took so far."""

    @property
    def queue_s(self) -> float | None:
        """Seconds from acceptance to the ticket, None before it."""
        return None if self._ticket_s is None else self._ticket_s - self._accepted_s

    @property
    def time_to_first_token_s(self) -> float | None:
        """Seconds from acceptance to the first token, None before it."""
        return None if self._first_token_s is None else self._first_token_s - self._accepted_s

    async def run(self) -> None:
        """Emits accepted, deltas and calls, usage and done, in this order; done only for a whole
        answer.

        Accepted comes twice when the device got worse while the request waited.

        Raises WorkerLostError when the worker goes away, and what scheduler and worker raise.
        """
        scheduler = await self._upstream.scheduler()
        self._turn = QueueTurn(scheduler, self._acquire_request(), self._remaining_s())
        await self._accept(await self._turn.queued())
        granted = await self._turn.granted()
        if self._turn.changed is not None:
            await self._accept(self._turn.changed)
        self._ticket_s = self._clock()
        self._require_active(self._caller)
        finished = await self._stream(granted)
        reason = finished.finish_reason
        if self._tool_calls is not None:
            for event in self._tool_calls.end(reason):
                await self._emit(event)
            reason = self._tool_calls.reason(reason)
        await self._emit(pb.GenerationEvent(usage=self._usage(finished.usage)))
        done = pb.Done(finish_reason=reason)
        if finished.HasField("stop_string"):
            done.stop_string = finished.stop_string
        await self._emit(pb.GenerationEvent(done=done))

    @property
    def is_reading(self) -> bool:
        """Whether `run` waits for the worker: then `stop` ends it, as cancelled."""
        return self._is_reading

    def stop(self) -> None:
        """Stops the worker's part at once. Dropping the call object would not."""
        self._is_stopped = True
        if self._worker_call is not None:
            self._worker_call.cancel()

    async def end(self) -> None:
        """Leaves the queue or settles the lease."""
        if self._turn is not None:
            await self._turn.end(self._caller.request_id, self._served())

    def ended(self, error: BaseException | None) -> EndedGeneration:
        """What there is to tell of it now that `run` is over."""
        if error is not None and not isinstance(error, EdgeLoraError):
            error = InternalError("an internal error occurred")
        return EndedGeneration(
            tenant_id=self._caller.tenant.tenant_id,
            priority=self._request.priority,
            adapter_digests=tuple(self.adapter_digests),
            queue_s=self.queue_s,
            time_to_first_token_s=self.time_to_first_token_s,
            total_s=self._clock() - self._accepted_s,
            num_prompt_tokens=self.num_prompt_tokens,
            num_output_tokens=self.num_output_tokens,
            engine_s=self.engine_s,
            degradations=tuple(self.degradations),
            error=error,
        )

    async def _accept(self, queued: Queued) -> None:
        self.adapter_digests = [adapter.digest for adapter in queued.adapters]
        self.strengths.resolve(queued.adapters)
        self.degradations = [
            f"{_step_name(degradation.step)} {degradation.rule}"
            for degradation in queued.degradations
        ]
        accepted = pb.Accepted(
            request_id=self._caller.request_id,
            queue_position=queued.position,
            adapters=queued.adapters,
            degradations=queued.degradations,
            routing=queued.routing if queued.HasField("routing") else None,
        )
        await self._emit(pb.GenerationEvent(accepted=accepted))

    async def _stream(self, granted: Granted) -> Finished:
        recheck_s = self._clock() + _RECHECK_S
        try:
            worker = await self._upstream.worker(granted.worker_address)
        except ServiceUnavailableError as error:
            raise worker_lost() from error
        self._worker_call = worker.Generate(
            InferenceServiceGenerateRequest(
                ticket=granted.ticket,
                input=self._request.input,
                options=self._request.options,
                session=self._request.session,
                strengths=self.strengths.changed(),
            ),
            timeout=self._remaining_s(),
            metadata=call_metadata(),
        )
        self.strengths.start(worker, self._worker_call)
        while True:
            response = await self._read()
            if response.HasField("engine_time"):
                self.engine_s = response.engine_time.ToMicroseconds() / 1_000_000
            match response.WhichOneof("event"):
                case "started":
                    self.num_prompt_tokens = response.started.num_prompt_tokens
                case "delta":
                    self._first_token_s = self._first_token_s or self._clock()
                    self.num_output_tokens += len(response.delta.token_ids)
                    await self._emit_delta(response.delta)
                case "finished":
                    return response.finished
            if self._clock() >= recheck_s:
                recheck_s = self._clock() + _RECHECK_S
                self._require_active(self._caller)

    async def _emit_delta(self, delta: Delta) -> None:
        if self._tool_calls is None:
            await self._emit(pb.GenerationEvent(delta=delta))
            return
        for event in self._tool_calls.read(delta):
            await self._emit(event)

    async def _read(self) -> InferenceServiceGenerateResponse:
        self._is_reading = True
        try:
            with errors_of_worker():
                response = await self._worker_call.read()
        finally:
            self._is_reading = False
        if self._is_stopped:  # the answer was on its way
            raise asyncio.CancelledError
        if not isinstance(response, InferenceServiceGenerateResponse):
            raise worker_lost()  # the end of the stream, without Finished
        return response

    def _acquire_request(self) -> AcquireRequest:
        return AcquireRequest(
            claim=self._caller.claim,
            adapters=self._request.adapters,
            priority=self._request.priority,  # type: ignore[arg-type]
            estimated_tokens=self._request.estimated_tokens,
            max_output_tokens=self._request.max_output_tokens,
            user=self._request.user,
            routing_text=self._request.routing_text,
            degradation=self._request.degradation,
            remaining=duration(self._remaining_s()),
            task=Task.TASK_GENERATE,
        )

    def _served(self) -> ReleaseRequest:
        served = ReleaseRequest(
            num_prompt_tokens=self.num_prompt_tokens, num_output_tokens=self.num_output_tokens
        )
        if self._ticket_s is not None and self._first_token_s is not None:
            served.time_to_first_token.CopyFrom(duration(self._first_token_s - self._ticket_s))
        return served

    def _usage(self, worker: Usage) -> Usage:
        """The worker's counts, with times that start at acceptance."""
        self.num_prompt_tokens = worker.num_prompt_tokens
        self.num_output_tokens = worker.num_output_tokens
        self.engine_s = worker.engine_time.ToMicroseconds() / 1_000_000
        usage = Usage()
        usage.CopyFrom(worker)
        usage.total_time.CopyFrom(duration(self._clock() - self._accepted_s))
        if self.queue_s is not None:
            usage.queue_time.CopyFrom(duration(self.queue_s))
        if self.time_to_first_token_s is not None:
            usage.time_to_first_token.CopyFrom(duration(self.time_to_first_token_s))
        return usage

    def _remaining_s(self) -> float:
        return max(0.0, self._deadline_s - self._clock())


def _step_name(step: int) -> str:
    return DegradationStep.Name(step).removeprefix("DEGRADATION_STEP_").lower()
