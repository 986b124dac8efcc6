"""/api/embed, and /api/embeddings, which takes one text and came before it."""

from __future__ import annotations

import time

from starlette.responses import JSONResponse, Response

from edgelora.errors import InvalidRequestError
from edgelora.v1 import gateway_service_pb2 as pb
from services.chassis.unserved import NO_ENCODER
from services.gateway.encoding.answers import bind_log_context
from services.gateway.http.call import HttpCall
from services.gateway.http.encoding_answer import encoded_headers
from services.gateway.http.encoding_fields import EncodingFields, read_encoding
from services.gateway.http.field_names import renamed
from services.gateway.http.json_fields import Fields
from services.gateway.http.ollama.model_tags import selections_named


async def embed(call: HttpCall) -> Response:
    """Answers POST /api/embed."""
    started_ns = time.monotonic_ns()
    asked, response = await _embed(call, "input")
    return JSONResponse(
        {
            "model": asked.model,
            "embeddings": [list(each.values) for each in response.embeddings],
            "total_duration": time.monotonic_ns() - started_ns,
            "load_duration": 0,
            "prompt_eval_count": response.usage.num_tokens,
        },
        headers=encoded_headers(response),
    )


async def embed_one(call: HttpCall) -> Response:
    """Answers POST /api/embeddings."""
    _, response = await _embed(call, "prompt")
    return JSONResponse(
        {"embedding": list(response.embeddings[0].values)}, headers=encoded_headers(response)
    )


async def _embed(call: HttpCall, texts_name: str) -> tuple[EncodingFields, pb.EmbedResponse]:
    caller = await call.authenticate()
    body = await call.json_fields()
    if not call.door.has_encoder:
        # Not found would make clients pull.
        raise InvalidRequestError(NO_ENCODER, field="model")
    base, other = call.door.encoder.name, call.door.decoder_name
    asked = read_encoding(body, texts_name, lambda name: selections_named(name, base, other))
    may_cut = _may_cut(body)
    if body.has("dimensions"):
        raise body.invalid("dimensions", "is not served: vectors are as long as the encoder's")
    if texts_name == "prompt" and not body.is_text(texts_name):
        raise body.invalid(texts_name, "must be one string: /api/embed takes a list")
    request = pb.EmbedRequest(
        texts=asked.texts, adapter=asked.adapter, priority=asked.priority, user=asked.user
    )
    with renamed(asked.rename):
        response = await call.while_connected(
            call.door.embed(caller, request, remaining_s=asked.deadline_s)
        )
    bind_log_context(response)
    if response.usage.num_truncated_texts and not may_cut:
        raise InvalidRequestError(
            f"{texts_name} is longer than the encoder's context: shorten it, or leave truncate out",
            field=texts_name,
        )
    return asked, response


def _may_cut(body: Fields) -> bool:
    return body.boolean("truncate") is not False
