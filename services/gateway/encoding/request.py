"""What a tenant asked of an encoder: checked, and its cost estimated. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edgelora.adapter_names import AUTO
from edgelora.errors import InvalidRequestError
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.gateway_service_pb2 import ClassifyRequest, EmbedRequest
from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.encoding_limits import check_texts, check_top_labels
from services.gateway.token_estimate import likely_text_tokens, most_text_tokens
from services.gateway.validation import check_asking, check_selection

Operation = Literal["classify", "embed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingRequest:
    """What a tenant asked for, validated."""

    operation: Operation
    texts: Sequence[str]
    adapters: Sequence[AdapterSelection]
    """One, or none for the vectors of the base model."""
    top_labels: int
    """Of a classification, at least 1."""
    priority: int
    user: str
    """Who of the tenant's people asks, may be empty. For the store's forecasts; never logged."""
    estimated_tokens: int
    """What it will likely cost; orders the scheduler's queues."""
    reserved_tokens: int
    """What it may cost at most; held against the tenant's quota."""


def classification(request: ClassifyRequest, max_context_tokens: int) -> EncodingRequest:
    """Reads a ClassifyRequest. Raises InvalidRequestError, which names the field."""
    if not request.HasField("adapter"):
        raise InvalidRequestError("adapter must name a classifier", field="adapter")
    check_top_labels(request.top_labels, len(request.texts))
    return _encoding("classify", request, request.top_labels or 1, max_context_tokens)


def embedding(request: EmbedRequest, max_context_tokens: int) -> EncodingRequest:
    """Reads an EmbedRequest. Raises InvalidRequestError, which names the field."""
    return _encoding("embed", request, 1, max_context_tokens)


def _encoding(
    operation: Operation,
    request: ClassifyRequest | EmbedRequest,
    top_labels: int,
    max_context_tokens: int,
) -> EncodingRequest:
    check_texts(request.texts)
    check_asking(request)
    adapters = [request.adapter] if request.HasField("adapter") else []
    for selection in adapters:
        check_selection(selection, "adapter")
        if selection.adapter == AUTO:
            raise InvalidRequestError(
                f"adapter.adapter must not be {AUTO}: only generations are routed",
                field="adapter.adapter",
            )
    return EncodingRequest(
        operation=operation,
        texts=request.texts,
        adapters=adapters,
        top_labels=top_labels,
        priority=request.priority or PriorityClass.PRIORITY_CLASS_INTERACTIVE,
        user=request.user,
        estimated_tokens=likely_text_tokens(request.texts, max_context_tokens),
        reserved_tokens=most_text_tokens(request.texts, max_context_tokens),
    )
