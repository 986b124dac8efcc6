"""POST /v1/classify, a path of our own in OpenAI's words: the labels of texts."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from edgelora.errors import InvalidRequestError
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.encoding_pb2 import Classification
from services.chassis.encoding_limits import MAX_TOP_LABELS
from services.gateway.encoding.answers import bind_log_context
from services.gateway.http.call import HttpCall
from services.gateway.http.encoding_answer import encoded_document, encoded_headers
from services.gateway.http.encoding_fields import read_encoding
from services.gateway.http.field_names import renamed
from services.gateway.http.model_names import selections_of


async def classify(call: HttpCall) -> Response:
    """Answers with the likeliest labels of each text."""
    caller = await call.authenticate()
    fields = await call.json_fields()
    base, other = call.door.encoder.name, call.door.decoder_name
    asked = read_encoding(fields, "input", lambda name: selections_of(name, base, other))
    top_labels = fields.integer("top", 1, MAX_TOP_LABELS) or 1
    fields.finish()
    if asked.adapter is None:
        raise InvalidRequestError(
            "model must name a classifier: the encoder alone has no labels", field="model"
        )
    request = pb.ClassifyRequest(
        texts=asked.texts,
        adapter=asked.adapter,
        top_labels=top_labels,
        priority=asked.priority,
        user=asked.user,
    )
    with renamed(asked.rename):
        response = await call.while_connected(
            call.door.classify(caller, request, remaining_s=asked.deadline_s)
        )
    bind_log_context(response)
    data = [_document(*each) for each in enumerate(response.classifications)]
    return JSONResponse(
        encoded_document(asked.model, data, response), headers=encoded_headers(response)
    )


def _document(index: int, found: Classification) -> dict[str, object]:
    labels = [{"label": each.label, "probability": each.probability} for each in found.labels]
    return {
        "object": "classification",
        "index": index,
        **labels[0],
        "out_of_scope": found.is_out_of_scope,
        "labels": labels,
    }
