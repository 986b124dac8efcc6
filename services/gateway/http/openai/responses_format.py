"""The shapes of a response and of the events that build it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator

from starlette.responses import JSONResponse, Response

from edgelora.errors import EdgeLoraError
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.generation_pb2 import FinishReason, Tool, ToolChoice, Usage
from services.gateway.http.call import HttpCall
from services.gateway.http.generation_events import OpenedGeneration, WholeGeneration
from services.gateway.http.openai.dialect import error_document
from services.gateway.http.openai.events import MEDIA_TYPE, event
from services.gateway.http.openai.output_items import (
    MessageItem,
    NamedEvent,
    call_events,
    call_item,
)
from services.gateway.http.openai.shared_fields import SharedFields
from services.gateway.http.served import served_document

_CHOICES = {
    ToolChoice.TOOL_CHOICE_UNSPECIFIED: "auto",
    ToolChoice.TOOL_CHOICE_AUTO: "auto",
    ToolChoice.TOOL_CHOICE_NONE: "none",
    ToolChoice.TOOL_CHOICE_REQUIRED: "required",
}


class ResponsesFormat:
    """How POST /v1/responses answers."""

    media_type = MEDIA_TYPE

    def __init__(self, call: HttpCall, shared: SharedFields, request: pb.ChatRequest) -> None:
        self._request_id = call.request_id
        sampling, stop = request.options.sampling, request.options.stop
        self._head: dict[str, object] = {
            "id": f"resp_{call.request_id}",
            "object": "response",
            "created_at": int(time.time()),
            "model": shared.model,
            "error": None,
            "instructions": None,
            "max_output_tokens": stop.max_tokens if stop.HasField("max_tokens") else None,
            "metadata": {},
            "parallel_tool_calls": request.tools.is_parallel,
            "previous_response_id": None,
            "store": False,
            "temperature": sampling.temperature,
            "text": {"format": _text_format(request)},
            "tool_choice": _tool_choice(request),
            "tools": [_tool(tool) for tool in request.tools.tools],
            "top_p": sampling.top_p if sampling.HasField("top_p") else 1.0,
            "truncation": "disabled",
        }
        self._num_events = 0

    def response(self, generation: WholeGeneration) -> Response:
        """A response."""
        output: list[dict[str, object]] = []
        if generation.text or not generation.tool_calls:
            message = MessageItem(self._request_id, 0)
            message.add(generation.text, generation.logprobs)
            output.append(message.document(is_done=True))
        for call in generation.tool_calls:
            output.append(call_item(call, self._request_id, len(output)))
        return JSONResponse(
            self._document(output, generation.accepted, generation.usage, generation.done)
        )

    async def pieces(self, opening: OpenedGeneration) -> AsyncIterator[bytes]:
        """Events of items that open, grow and close, between those of the whole response."""
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, {"response": self._document([], opening.accepted)})
        output: list[dict[str, object]] = []
        message: MessageItem | None = None
        usage, done = Usage(), pb.Done()
        async for item in opening.events:
            match item.WhichOneof("event"):
                case "delta" if item.delta.text or item.delta.logprobs:
                    if message is None:
                        message = MessageItem(self._request_id, len(output))
                        for piece in self._events(message.opening()):
                            yield piece
                    yield self._event(*message.delta(item.delta.text, item.delta.logprobs))
                case "tool_call":
                    if message is not None:
                        for piece in self._events(message.closing()):
                            yield piece
                        output.append(message.document(is_done=True))
                        message = None
                    called = call_item(item.tool_call, self._request_id, len(output))
                    for piece in self._events(call_events(called, len(output))):
                        yield piece
                    output.append(called)
                case "usage":
                    usage = item.usage
                case "done":
                    done = item.done
        if message is None and not output:
            message = MessageItem(self._request_id, 0)
            for piece in self._events(message.opening()):
                yield piece
        if message is not None:
            for piece in self._events(message.closing()):
                yield piece
            output.append(message.document(is_done=True))
        document = self._document(output, opening.accepted, usage, done)
        yield self._event(f"response.{document['status']}", {"response": document})

    def last_words(self, error: EdgeLoraError) -> bytes:
        """An error event, in the shape of this path and in that of the others."""
        document = error_document(error)
        return self._event("error", {**document["error"], **document})

    def _document(
        self,
        output: list[dict[str, object]],
        accepted: pb.Accepted,
        usage: Usage | None = None,
        done: pb.Done | None = None,
    ) -> dict[str, object]:
        is_cut = done is not None and done.finish_reason == FinishReason.FINISH_REASON_LENGTH
        ended = "incomplete" if is_cut else "completed"
        return {
            **self._head,
            "status": "in_progress" if done is None else ended,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": output,
            "usage": None if usage is None else _usage(usage),
            "edgelora": served_document(accepted, usage),
        }

    def _events(self, named: Iterator[NamedEvent]) -> Iterator[bytes]:
        for name, document in named:
            yield self._event(name, document)

    def _event(self, name: str, document: dict[str, object]) -> bytes:
        self._num_events += 1
        number = self._num_events - 1
        return event({**document, "type": name, "sequence_number": number}, name)


def _usage(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.num_prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.num_cached_prompt_tokens},
        "output_tokens": usage.num_output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.num_prompt_tokens + usage.num_output_tokens,
    }


def _text_format(request: pb.ChatRequest) -> dict[str, object]:
    constraint = request.options.constraint
    if constraint.json_schema:
        schema = json.loads(constraint.json_schema)
        return {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    return {"type": "json_object" if constraint.json_object else "text"}


def _tool_choice(request: pb.ChatRequest) -> object:
    if request.tools.choice == ToolChoice.TOOL_CHOICE_NAMED:
        return {"type": "function", "name": request.tools.name}
    return _CHOICES[request.tools.choice]


def _tool(tool: Tool) -> dict[str, object]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or None,
        "parameters": json.loads(tool.parameters_json or "{}"),
        "strict": True,
    }
