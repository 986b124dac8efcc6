"""What the answers of the encoder have in common over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgelora.v1.gateway_service_pb2 import Accepted, ClassifyResponse, EmbedResponse
from services.gateway.http.served import served_document, served_headers

EncodingResponse = ClassifyResponse | EmbedResponse


def encoded_document(
    model: str, data: Sequence[object], response: EncodingResponse
) -> dict[str, object]:
    """A list of answers in OpenAI's shape, one a text."""
    usage = response.usage
    return {
        "object": "list",
        "model": model,
        "data": data,
        "usage": {"prompt_tokens": usage.num_tokens, "total_tokens": usage.num_tokens},
        "edgelora": {
            **served_document(_accepted(response)),
            "truncated_texts": usage.num_truncated_texts,
        },
    }


def encoded_headers(response: EncodingResponse) -> Mapping[str, str]:
    """What served it, as for generations."""
    return served_headers(_accepted(response))


def _accepted(response: EncodingResponse) -> Accepted:
    adapters = [response.adapter] if response.HasField("adapter") else []
    return Accepted(request_id=response.request_id, adapters=adapters)
