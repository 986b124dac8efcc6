"""Translates the InferenceService protos to the engine and back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any

import grpc
import structlog

from edgelora.errors import PermissionDeniedError
from edgelora.v1 import inference_service_pb2 as pb
from edgelora.v1 import inference_service_pb2_grpc as rpc
from edgelora.v1.adapter_pb2 import AdapterStrength
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.ticket_pb2 import Sealed, Ticket
from services.chassis.base_model import BaseModel
from services.chassis.claims import open_claim, open_ticket
from services.chassis.generation_limits import check_session
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.tracing import current_span, forget, remember
from services.inference.adapter_loading import AdapterLoading
from services.inference.constraints.compiler import ConstraintCompiler
from services.inference.engine.engine import Engine
from services.inference.engine.events import Admitted, Completed, TextDelta, Worked
from services.inference.engine.fetched_adapter import FetchedAdapter
from services.inference.engine.sequence import Priority
from services.inference.engine.token_bytes import TokenBytes
from services.inference.generation_observer import GenerationObserver
from services.inference.generation_phases import add_phases
from services.inference.messages import (
    to_delta,
    to_duration,
    to_engine_status,
    to_finished,
    to_timings,
)
from services.inference.prompt_encoder import PromptEncoder
from services.inference.running_requests import RunningRequests
from services.inference.sealed_limits import SealedLimits
from services.inference.validation import (
    check_generation,
    check_strength,
    to_adapters,
    to_priority,
    to_sampling,
    to_stop,
)

_Context = grpc.aio.ServicerContext[Any, Any]


class InferenceServicer(rpc.InferenceServiceServicer):
    """The gRPC face of a worker."""

    def __init__(
        self,
        engine: Engine,
        encoder: PromptEncoder,
        constraints: ConstraintCompiler,
        loading: AdapterLoading[FetchedAdapter],
        model: BaseModel,
        sealer: Sealer,
        *,
        token_bytes: TokenBytes,
        worker: str,
        backend: str,
        kv_cache_dtype: str,
        max_sequence_tokens: int,
        max_lora_rank: int,
        observer: GenerationObserver | None = None,
        boot_clock: Callable[[], float] = boot_clock_s,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`max_sequence_tokens`: most tokens of prompt and output together."""
        self._engine = engine
        self._encoder = encoder
        self._constraints = constraints
        self._loading = loading
        self._model = model
        self._sealer = sealer
        self._limits = SealedLimits(sealer, worker)
        self._requests = RunningRequests(engine)
        self._token_bytes = token_bytes
        self._worker = worker
        self._backend = backend
        self._kv_cache_dtype = kv_cache_dtype
        self._max_sequence_tokens = max_sequence_tokens
        self._max_lora_rank = max_lora_rank
        self._observer = observer
        self._boot_clock = boot_clock
        self._clock = clock

    async def Generate(
        self, request: pb.InferenceServiceGenerateRequest, context: _Context
    ) -> AsyncIterator[pb.InferenceServiceGenerateResponse]:
        """Started, deltas, Finished."""
        arrived_s = self._clock()
        ticket = self._open(request.ticket)
        structlog.contextvars.bind_contextvars(
            tenant_id=ticket.tenant_id,
            ticket_id=ticket.ticket_id,
            adapters=[adapter.digest for adapter in ticket.adapters],
        )
        options = request.options
        check_generation(options, request.input.conversation.tools, self._model.vocab_size)
        check_session(request.session)
        adapters = to_adapters(ticket.adapters, self._engine.max_adapters, request.strengths)
        name = ticket.tenant_id, ticket.request_id
        running = self._requests.add(*name, adapters)
        # However the call ends; and whoever sees the headers may change its strengths.
        context.add_done_callback(lambda _: self._requests.remove(*name, running))  # type: ignore[arg-type]
        await context.send_initial_metadata(())
        priority = to_priority(ticket.priority)
        token_ids = await self._encoder.encode(
            request.input, is_urgent=priority is Priority.INTERACTIVE
        )
        self._loading.check(ticket.tenant_id, tuple(use.digest for use in adapters))
        constraint = await self._constraints.compile(options, request.input, ticket.tenant_id)
        num_prompt_tokens = len(token_ids)
        remember(ticket.ticket_id)
        context.add_done_callback(lambda _: forget(ticket.ticket_id))  # type: ignore[arg-type]
        stream = self._engine.submit(
            token_ids,
            ticket=request.ticket,
            sampling=to_sampling(options.sampling),
            stop=to_stop(
                options.stop,
                room=self._max_sequence_tokens - num_prompt_tokens,
                ticket_limit=ticket.max_output_tokens,
            ),
            num_top_logprobs=options.logprobs if options.HasField("logprobs") else None,
            priority=priority,
            adapters=running.adapters,
            tenant_id=ticket.tenant_id or None,
            session=request.session,
            constraint=constraint,
            arrived_s=arrived_s,
        )
        running.start(stream)
        num_output_tokens = 0
        first_text_s: float | None = None
        last_text_s: float | None = None
        try:
            # A client that leaves while a message is on its way never resumes this generator;
            # the callback runs when the call is over, however it ends.
            context.add_done_callback(lambda _: stream.close())  # type: ignore[arg-type]
            async for event in stream:
                match event:
                    case Admitted():
                        yield pb.InferenceServiceGenerateResponse(
                            started=pb.Started(num_prompt_tokens=num_prompt_tokens)
                        )
                    case TextDelta():
                        num_output_tokens += len(event.tokens)
                        first_text_s = first_text_s or self._clock() - arrived_s
                        last_text_s = self._note_tokens(len(event.tokens), last_text_s)
                        yield pb.InferenceServiceGenerateResponse(
                            delta=to_delta(event, self._token_bytes),
                            engine_time=to_duration(event.engine_s),
                        )
                    case Worked():
                        yield pb.InferenceServiceGenerateResponse(
                            engine_time=to_duration(event.engine_s)
                        )
                    case Completed():
                        structlog.contextvars.bind_contextvars(**to_timings(event))
                        add_phases(current_span(), event)
                        if self._observer is not None:
                            self._observer.note_completed(event)
                        yield pb.InferenceServiceGenerateResponse(finished=to_finished(event))
        finally:
            stream.close()
            structlog.contextvars.bind_contextvars(
                num_prompt_tokens=num_prompt_tokens,
                num_output_tokens=num_output_tokens,
                ttft_ms=None if first_text_s is None else round(first_text_s * 1000, 1),
            )

    async def SetStrength(
        self, request: pb.InferenceServiceSetStrengthRequest, context: _Context
    ) -> pb.InferenceServiceSetStrengthResponse:
        """Takes effect between two steps."""
        claim = open_claim(self._sealer, request.claim, self._boot_clock())
        check_strength(request.strength, "strength")
        running = self._requests.find(claim.tenant_id, request.request_id)
        uses = await running.set_strength(request.adapter, request.strength)
        return pb.InferenceServiceSetStrengthResponse(
            adapters=[AdapterStrength(digest=use.digest, strength=use.weight) for use in uses]
        )

    async def ForgetSessions(
        self, request: pb.ForgetSessionsRequest, context: _Context
    ) -> pb.ForgetSessionsResponse:
        """Takes effect between two steps."""
        claim = open_claim(self._sealer, request.claim, self._boot_clock())
        check_session(request.session)
        return pb.ForgetSessionsResponse(
            num_forgotten=await self._engine.forget(claim.tenant_id, request.session)
        )

    async def SetRunLimits(
        self, request: pb.SetRunLimitsRequest, context: _Context
    ) -> pb.SetRunLimitsResponse:
        """Takes effect between two steps."""
        shares = self._limits.open(request.limits, self._boot_clock())
        limits = self._engine.limit(
            seqs=shares.seqs_share, prefill=shares.prefill_share, threads=shares.threads_share
        )
        return pb.SetRunLimitsResponse(**asdict(limits))

    async def GetModel(self, request: pb.GetModelRequest, context: _Context) -> pb.GetModelResponse:
        """Describes the base model."""
        return pb.GetModelResponse(
            name=self._model.name,
            digest=self._model.digest,
            max_context_tokens=self._max_sequence_tokens,
            vocab_size=self._model.vocab_size,
            backend=self._backend,
            max_lora_rank=self._max_lora_rank,
            kv_cache_dtype=self._kv_cache_dtype,
            family=self._model.family,
            num_layers=self._model.num_layers,
            num_parameters=self._model.num_parameters,
            weights_bytes=self._engine.status.memory.weights_bytes,
        )

    async def GetEngineStatus(
        self, request: pb.GetEngineStatusRequest, context: _Context
    ) -> pb.GetEngineStatusResponse:
        """Counts what the engine holds and does."""
        return to_engine_status(self._engine.status)

    def _note_tokens(self, num_tokens: int, last_s: float | None) -> float | None:
        """Tells of tokens that go out; returns when the last ones did."""
        if self._observer is None or not num_tokens:
            return last_s
        now_s = self._clock()
        self._observer.note_tokens(num_tokens, None if last_s is None else now_s - last_s)
        return now_s

    def _open(self, sealed: Sealed) -> Ticket:
        ticket = open_ticket(self._sealer, sealed, self._boot_clock())
        if ticket.worker != self._worker:
            raise PermissionDeniedError("the ticket is for another worker")
        if ticket.task not in (Task.TASK_UNSPECIFIED, Task.TASK_GENERATE):
            raise PermissionDeniedError("the ticket is for another task")
        return ticket
