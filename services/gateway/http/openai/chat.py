"""POST /v1/chat/completions."""

from __future__ import annotations

from starlette.responses import Response

from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.generation_pb2 import GenerationOptions
from services.chassis.generation_limits import MAX_LOGPROBS
from services.gateway.http.call import HttpCall
from services.gateway.http.field_names import renamed
from services.gateway.http.generation_answer import answer
from services.gateway.http.json_fields import Fields
from services.gateway.http.openai.chat_format import ChatFormat
from services.gateway.http.openai.messages import call_names, read_messages
from services.gateway.http.openai.shared_fields import SharedFields, read_shared
from services.gateway.http.openai.tools import read_response_format, read_tools, tool_names
from services.gateway.http.served import served_headers

_MAX_TOKENS = ("max_completion_tokens", "max_tokens")
_NAMES = {
    "options.constraint": "response_format",
    "options.constraint.json_schema": "response_format.json_schema.schema",
    "options.logprobs": "top_logprobs",
}
_NOT_SERVED = {
    "audio": "answers are text",
    "chat_template": "the model's own is used",
    "chat_template_kwargs": "the model's own template is used",
    "function_call": "use tool_choice",
    "functions": "use tools",
    "prediction": "there is nothing that it would speed up",
    "web_search_options": "the node searches nothing",
}


async def complete_chat(call: HttpCall) -> Response:
    """Answers a conversation."""
    caller = await call.authenticate()
    fields = await call.json_fields()
    door = call.door
    shared = read_shared(fields, door.model.name, door.encoder_name, max_tokens=_MAX_TOKENS)
    request = _read_request(fields, shared)
    names = tool_names(len(request.tools.tools), is_nested=True)
    rename = shared.rename({**_NAMES, **names, **call_names(request.messages)})
    with renamed(rename):
        stream = call.door.chat(caller, request, remaining_s=shared.extensions.deadline_s)
    return await answer(
        call,
        stream,
        ChatFormat(call, shared),
        rename=rename,
        is_streamed=shared.is_streamed,
        headers=served_headers,
    )


def _read_request(fields: Fields, shared: SharedFields) -> pb.ChatRequest:
    options = GenerationOptions()
    options.CopyFrom(shared.options)
    _read_logprobs(fields, options)
    constraint = read_response_format(fields, "response_format", is_nested=True)
    if constraint is not None:
        options.constraint.CopyFrom(constraint)
    request = pb.ChatRequest(
        messages=read_messages(fields),
        adapters=shared.extensions.selections,
        options=options,
        priority=shared.extensions.priority,
        user=shared.extensions.user,
        session=shared.extensions.session,
        degradation=shared.extensions.degradation,
        tools=read_tools(fields, is_nested=True),
    )
    if fields.texts("modalities") not in (None, [], ["text"]):
        raise fields.invalid("modalities", "must be text")
    fields.refuse(_NOT_SERVED)
    fields.ignore("reasoning_effort", "verbosity")
    fields.finish()
    return request


def _read_logprobs(fields: Fields, options: GenerationOptions) -> None:
    is_wanted = fields.boolean("logprobs")
    num_top = fields.integer("top_logprobs", 0, MAX_LOGPROBS)
    if is_wanted:
        options.logprobs = num_top or 0
    elif num_top:
        raise fields.invalid("top_logprobs", "goes with logprobs: true only")
