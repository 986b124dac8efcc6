"""POST /v1/responses: the newer way to ask for the same; nothing is stored."""

from __future__ import annotations

from starlette.responses import Response

from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.generation_pb2 import GenerationOptions
from services.chassis.generation_limits import MAX_LOGPROBS
from services.gateway.http.call import HttpCall
from services.gateway.http.field_names import renamed
from services.gateway.http.generation_answer import answer
from services.gateway.http.json_fields import Fields
from services.gateway.http.openai.input_items import read_input
from services.gateway.http.openai.responses_format import ResponsesFormat
from services.gateway.http.openai.shared_fields import SharedFields, read_shared
from services.gateway.http.openai.tools import read_response_format, read_tools, tool_names
from services.gateway.http.served import served_headers

_NAMES = {
    "options.constraint": "text.format",
    "options.constraint.json_schema": "text.format.schema",
    "options.logprobs": "top_logprobs",
}
_NOT_SERVED = {
    "background": "an answer is given at once",
    "chat_template": "the model's own is used",
    "context_management": "send what the model shall read",
    "conversation": "nothing is stored, send what was said before",
    "previous_response_id": "nothing is stored, send what was said before",
    "prompt": "nothing is stored, send the instructions",
}
_LOGPROBS = "message.output_text.logprobs"


async def respond(call: HttpCall) -> Response:
    """Answers an input."""
    caller = await call.authenticate()
    fields = await call.json_fields()
    door = call.door
    shared = read_shared(
        fields, door.model.name, door.encoder_name, max_tokens=("max_output_tokens",)
    )
    request, names = _read_request(fields, shared)
    names |= tool_names(len(request.tools.tools), is_nested=False)
    rename = shared.rename({**_NAMES, **names})
    with renamed(rename):
        stream = call.door.chat(caller, request, remaining_s=shared.extensions.deadline_s)
    return await answer(
        call,
        stream,
        ResponsesFormat(call, shared, request),
        rename=rename,
        is_streamed=shared.is_streamed,
        headers=served_headers,
    )


def _read_request(fields: Fields, shared: SharedFields) -> tuple[pb.ChatRequest, dict[str, str]]:
    """The request, and how the client called its messages."""
    options = GenerationOptions()
    options.CopyFrom(shared.options)
    _read_logprobs(fields, options)
    text = fields.child("text")
    if text is not None:
        constraint = read_response_format(text, "format", is_nested=False)
        if constraint is not None:
            options.constraint.CopyFrom(constraint)
        text.ignore("verbosity")
        text.finish()
    messages, names = read_input(fields)
    request = pb.ChatRequest(
        messages=messages,
        adapters=shared.extensions.selections,
        options=options,
        priority=shared.extensions.priority,
        user=shared.extensions.user,
        session=shared.extensions.session,
        degradation=shared.extensions.degradation,
        tools=read_tools(fields, is_nested=False),
    )
    fields.one_of("truncation", ("disabled",))
    fields.refuse(_NOT_SERVED)
    fields.ignore("reasoning", "max_tool_calls")
    fields.finish()
    return request, names


def _read_logprobs(fields: Fields, options: GenerationOptions) -> None:
    num_top = fields.integer("top_logprobs", 0, MAX_LOGPROBS)
    included = fields.texts("include") or []
    if any(item != _LOGPROBS for item in included):
        raise fields.invalid("include", f"may hold {_LOGPROBS} only")
    if included or num_top:
        options.logprobs = num_top or 0
