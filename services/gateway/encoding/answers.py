"""What an encoder answered, as the tenant gets it."""

from __future__ import annotations

import structlog

from edgelora.errors import InternalError
from edgelora.v1 import encoder_service_pb2 as worker_pb
from edgelora.v1.gateway_service_pb2 import ClassifyResponse, EmbedResponse
from services.gateway.encoding.request import EncodingRequest
from services.gateway.encoding.run import Encoded


def classify_response(
    request: EncodingRequest, encoded: Encoded, request_id: str
) -> ClassifyResponse:
    """The labels of each text. Raises InternalError for an answer that leaves one out."""
    response = encoded.response
    assert isinstance(response, worker_pb.EncoderServiceClassifyResponse)
    _require_all(len(response.classifications), request)
    return ClassifyResponse(
        classifications=response.classifications,
        request_id=request_id,
        adapter=encoded.adapter,
        usage=response.usage,
    )


def embed_response(
    request: EncodingRequest, encoded: Encoded, request_id: str, model: str
) -> EmbedResponse:
    """The vector of each text. Raises InternalError for an answer that leaves one out."""
    response = encoded.response
    assert isinstance(response, worker_pb.EncoderServiceEmbedResponse)
    _require_all(len(response.embeddings), request)
    return EmbedResponse(
        embeddings=response.embeddings,
        request_id=request_id,
        adapter=encoded.adapter,
        usage=response.usage,
        model=model,
    )


def bind_log_context(response: ClassifyResponse | EmbedResponse) -> None:
    """Adds what is known of the encoding to the log line of the call."""
    adapter = response.adapter.digest
    structlog.contextvars.bind_contextvars(
        adapters=[adapter] if adapter else [], num_tokens=response.usage.num_tokens
    )


def _require_all(num_answers: int, request: EncodingRequest) -> None:
    if num_answers != len(request.texts):
        raise InternalError("the encoder answered another number of texts than it was given")
