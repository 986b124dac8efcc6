"""Translates the EncoderService protos to the encoder's engine and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import structlog

from edgelora.errors import InvalidRequestError, PermissionDeniedError
from edgelora.v1 import encoder_service_pb2 as pb
from edgelora.v1 import encoder_service_pb2_grpc as rpc
from edgelora.v1.encoding_pb2 import Classification, Embedding, EncodingUsage, LabelScore, Task
from edgelora.v1.ticket_pb2 import Sealed, Ticket
from services.chassis.base_model import BaseModel
from services.chassis.claims import open_ticket
from services.chassis.encoding_limits import check_texts, check_top_labels
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.tracing import forget, remember
from services.inference.adapter_loading import AdapterLoading
from services.inference.encoder.classification import Classified, classify, normalised
from services.inference.encoder.encoding import Encoded
from services.inference.encoder.engine import EncoderEngine
from services.inference.encoder.fetched_encoder import FetchedEncoderAdapter
from services.inference.encoder.text_reader import TextReader
from services.inference.engine.sequence import AdapterUse, Priority
from services.inference.messages import to_duration
from services.inference.validation import check_strength, to_adapters, to_priority

_Context = grpc.aio.ServicerContext[Any, Any]


class EncoderServicer(rpc.EncoderServiceServicer):
    """The gRPC face of an encoder worker."""

    def __init__(
        self,
        engine: EncoderEngine,
        reader: TextReader,
        loading: AdapterLoading[FetchedEncoderAdapter],
        model: BaseModel,
        sealer: Sealer,
        *,
        worker: str,
        backend: str,
        max_lora_rank: int,
        boot_clock: Callable[[], float] = boot_clock_s,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._loading = loading
        self._model = model
        self._sealer = sealer
        self._worker = worker
        self._backend = backend
        self._max_lora_rank = max_lora_rank
        self._boot_clock = boot_clock
        self._clock = clock

    async def Classify(
        self, request: pb.EncoderServiceClassifyRequest, context: _Context
    ) -> pb.EncoderServiceClassifyResponse:
        """The head of the ticket's one adapter."""
        ticket = self._open(request.ticket)
        check_top_labels(request.top_labels, len(request.texts))
        if not request.top_labels:
            raise InvalidRequestError("top_labels must be at least 1", field="top_labels")
        use = _to_classifier(ticket)
        encoded, usage = await self._encode(
            request.ticket, ticket, request.texts, (use,), wants_head=True
        )
        assert encoded.head is not None
        return pb.EncoderServiceClassifyResponse(
            classifications=[
                _to_classification(classify(encoded.head, vector, request.top_labels))
                for vector in encoded.vectors
            ],
            usage=usage,
            engine_time=to_duration(encoded.engine_s),
        )

    async def Embed(
        self, request: pb.EncoderServiceEmbedRequest, context: _Context
    ) -> pb.EncoderServiceEmbedResponse:
        """Vectors of length 1, with the ticket's adapter or without."""
        ticket = self._open(request.ticket)
        uses = to_adapters(ticket.adapters, self._engine.max_adapters)
        encoded, usage = await self._encode(
            request.ticket, ticket, request.texts, uses, wants_head=False
        )
        return pb.EncoderServiceEmbedResponse(
            embeddings=[Embedding(values=normalised(vector)) for vector in encoded.vectors],
            usage=usage,
            engine_time=to_duration(encoded.engine_s),
        )

    async def GetEncoder(
        self, request: pb.GetEncoderRequest, context: _Context
    ) -> pb.GetEncoderResponse:
        """Describes the base model."""
        model = self._model
        return pb.GetEncoderResponse(
            name=model.name,
            digest=model.digest,
            max_context_tokens=model.max_context_tokens,
            hidden_size=model.hidden_size,
            backend=self._backend,
            max_lora_rank=self._max_lora_rank,
            family=model.family,
            num_parameters=model.num_parameters,
            weights_bytes=self._engine.status.weights_bytes,
        )

    async def GetEncoderStatus(
        self, request: pb.GetEncoderStatusRequest, context: _Context
    ) -> pb.GetEncoderStatusResponse:
        """Counts what the engine holds and does."""
        status = self._engine.status
        return pb.GetEncoderStatusResponse(
            num_adapter_slots=status.num_adapter_slots,
            num_resident_adapters=status.num_resident_adapters,
            num_steps=status.num_steps,
            num_texts=status.num_texts,
            num_tokens=status.num_tokens,
            step_time=to_duration(status.step_s),
            weights_bytes=status.weights_bytes,
            adapter_slots_bytes=status.adapter_slots_bytes,
        )

    async def _encode(
        self,
        sealed: Sealed,
        ticket: Ticket,
        texts: Sequence[str],
        uses: tuple[AdapterUse, ...],
        *,
        wants_head: bool,
    ) -> tuple[Encoded, EncodingUsage]:
        arrived_s = self._clock()
        check_texts(texts)
        priority = to_priority(ticket.priority)
        read = await self._reader.read(texts, is_urgent=priority is Priority.INTERACTIVE)
        self._loading.check(ticket.tenant_id, tuple(use.digest for use in uses))
        remember(ticket.ticket_id)
        try:
            encoded = await self._engine.encode(
                [text.token_ids for text in read],
                adapters=uses,
                wants_head=wants_head,
                priority=priority,
                tenant_id=ticket.tenant_id,
                ticket=sealed,
                arrived_s=arrived_s,
            )
        finally:
            forget(ticket.ticket_id)
        structlog.contextvars.bind_contextvars(
            num_texts=len(read),
            num_tokens=encoded.num_tokens,
            num_steps=encoded.num_steps,
            engine_queue_ms=round(encoded.queue_s * 1000, 1),
            adapter_load_ms=round(encoded.adapter_load_s * 1000, 1),
            engine_ms=round(encoded.engine_s * 1000, 1),
        )
        usage = EncodingUsage(
            num_tokens=encoded.num_tokens, num_truncated_texts=sum(text.is_cut for text in read)
        )
        return encoded, usage

    def _open(self, sealed: Sealed) -> Ticket:
        ticket = open_ticket(self._sealer, sealed, self._boot_clock())
        if ticket.worker != self._worker:
            raise PermissionDeniedError("the ticket is for another worker")
        if ticket.task != Task.TASK_ENCODE:
            raise PermissionDeniedError("the ticket is for another task")
        structlog.contextvars.bind_contextvars(
            tenant_id=ticket.tenant_id,
            ticket_id=ticket.ticket_id,
            adapters=[adapter.digest for adapter in ticket.adapters],
        )
        return ticket


def _to_classifier(ticket: Ticket) -> AdapterUse:
    """The one adapter of a ticket; at strength 0 its classifier works on the base model."""
    if len(ticket.adapters) != 1:
        raise InvalidRequestError("adapter must be one that has a classifier", field="adapter")
    (adapter,) = ticket.adapters
    check_strength(adapter.strength, "adapter.strength")
    return AdapterUse(adapter.digest, adapter.strength)


def _to_classification(classified: Classified) -> Classification:
    return Classification(
        labels=[
            LabelScore(label=label, probability=probability)
            for label, probability in classified.labels
        ],
        is_out_of_scope=classified.is_out_of_scope,
    )
