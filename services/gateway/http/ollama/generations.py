"""/api/chat and /api/generate."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from edgelora.adapter_names import AUTO
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.generation_pb2 import ChatMessage
from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.authentication import Caller
from services.gateway.http.call import HttpCall
from services.gateway.http.field_names import renamed
from services.gateway.http.generation_answer import answer
from services.gateway.http.ollama.answers import OllamaAnswer
from services.gateway.http.ollama.conversation import read_messages, read_tools
from services.gateway.http.ollama.wishes import Wishes, read_wishes
from services.gateway.http.served import served_headers


class Generations:
    """Answers with text, or with calls of tools."""

    def __init__(self, catalogue: AdapterCatalogue) -> None:
        self._catalogue = catalogue

    async def chat(self, call: HttpCall) -> Response:
        """Answers POST /api/chat."""
        caller = await call.authenticate()
        body = await call.json_fields()
        wishes = read_wishes(body, call.door.model, call.door.encoder_name)
        messages, names = read_messages(body)
        tools = read_tools(body)
        form = OllamaAnswer("chat", wishes.model)
        if not messages:
            return await self._load(caller, wishes, form)
        request = _chat_request(wishes, messages)
        if tools is not None:
            request.tools.CopyFrom(tools)
        return await _answer(call, caller, request, wishes, form, names)

    async def generate(self, call: HttpCall) -> Response:
        """Answers POST /api/generate."""
        caller = await call.authenticate()
        body = await call.json_fields()
        wishes = read_wishes(body, call.door.model, call.door.encoder_name)
        form = OllamaAnswer("generate", wishes.model)
        prompt, system = body.text("prompt"), body.text("system")
        is_raw = body.boolean("raw")
        if is_raw and system:
            raise body.invalid("system", "goes with no raw: put it into the prompt")
        if not prompt:
            return await self._load(caller, wishes, form)
        if is_raw:
            raw = pb.GenerateRequest(prompt=prompt)
            _fill(raw, wishes)
            return await _answer(call, caller, raw, wishes, form, {})
        messages = [ChatMessage(role="user", content=prompt)]
        names = {"messages[0].content": "prompt"}
        if system:
            messages.insert(0, ChatMessage(role="system", content=system))
            names = {"messages[0].content": "system", "messages[1].content": "prompt"}
        request = _chat_request(wishes, messages)
        return await _answer(call, caller, request, wishes, form, names)

    async def _load(self, caller: Caller, wishes: Wishes, form: OllamaAnswer) -> Response:
        """The model is loaded anyway: says whether there is one of that name."""
        with renamed(lambda _: "model"):
            for selection in wishes.extensions.selections:
                if selection.adapter != AUTO:
                    wanted = pb.GetAdapterRequest(adapter=selection.adapter)
                    await self._catalogue.get(wanted, caller.claim)
        return form.loaded(is_unload=wishes.frees_model)


def _chat_request(wishes: Wishes, messages: list[ChatMessage]) -> pb.ChatRequest:
    request = pb.ChatRequest(messages=messages)
    _fill(request, wishes)
    return request


def _fill(request: pb.ChatRequest | pb.GenerateRequest, wishes: Wishes) -> None:
    asked = wishes.extensions
    request.adapters.extend(asked.selections)
    request.options.CopyFrom(wishes.options)
    request.priority = asked.priority
    request.user = asked.user
    request.session = asked.session
    request.degradation.CopyFrom(asked.degradation)


async def _answer(
    call: HttpCall,
    caller: Caller,
    request: pb.ChatRequest | pb.GenerateRequest,
    wishes: Wishes,
    form: OllamaAnswer,
    names: Mapping[str, str],
) -> Response:
    rename = wishes.rename(names)
    deadline_s = wishes.extensions.deadline_s
    with renamed(rename):
        if isinstance(request, pb.ChatRequest):
            stream = call.door.chat(caller, request, remaining_s=deadline_s)
        else:
            stream = call.door.generate(caller, request, remaining_s=deadline_s)
    return await answer(
        call,
        stream,
        form,
        rename=rename,
        is_streamed=wishes.is_streamed,
        headers=served_headers,
    )
