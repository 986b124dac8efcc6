"""POST /v1/embeddings: the vectors of texts."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence

from starlette.responses import JSONResponse, Response

from edgelora.v1 import gateway_service_pb2 as pb
from services.gateway.encoding.answers import bind_log_context
from services.gateway.http.call import HttpCall
from services.gateway.http.encoding_answer import encoded_document, encoded_headers
from services.gateway.http.encoding_fields import read_encoding
from services.gateway.http.field_names import renamed
from services.gateway.http.model_names import selections_of

Vector = Sequence[float]


async def embed(call: HttpCall) -> Response:
    """Answers with a vector for each text."""
    caller = await call.authenticate()
    fields = await call.json_fields()
    base, other = call.door.encoder.name, call.door.decoder_name
    asked = read_encoding(fields, "input", lambda name: selections_of(name, base, other))
    form = _FORMS[fields.one_of("encoding_format", _FORMS) or "float"]
    if fields.has("dimensions"):
        raise fields.invalid("dimensions", "is not served: vectors are as long as the encoder's")
    fields.ignore("dimensions")
    fields.finish()
    request = pb.EmbedRequest(
        texts=asked.texts, adapter=asked.adapter, priority=asked.priority, user=asked.user
    )
    with renamed(asked.rename):
        response = await call.while_connected(
            call.door.embed(caller, request, remaining_s=asked.deadline_s)
        )
    bind_log_context(response)
    data = [
        {"object": "embedding", "index": index, "embedding": form(embedding.values)}
        for index, embedding in enumerate(response.embeddings)
    ]
    return JSONResponse(
        encoded_document(asked.model, data, response), headers=encoded_headers(response)
    )


def _base64(values: Vector) -> str:
    """32-bit floats, little-endian, as OpenAI's clients ask for them."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


_FORMS: dict[str, Callable[[Vector], object]] = {"float": list, "base64": _base64}
