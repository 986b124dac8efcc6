"""An answer as lines of JSON, or as one object."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from starlette.responses import JSONResponse, Response

from edgelora.errors import EdgeLoraError
from edgelora.v1.generation_pb2 import FinishReason, ToolCall
from services.gateway.http.generation_events import OpenedGeneration, WholeGeneration
from services.gateway.http.ollama.dialect import error_document
from services.gateway.http.ollama.timings import timings
from services.gateway.http.served import served_document

Path = Literal["chat", "generate"]
_MOST_DIGITS = 1000


class OllamaAnswer:
    """What /api/chat or /api/generate says; the end alone has `done: true` and the numbers."""

    media_type = "application/x-ndjson"

    def __init__(self, path: Path, model: str) -> None:
        """`model`: the name the client asked for, which answers repeat."""
        self._path = path
        self._model = model

    def response(self, generation: WholeGeneration) -> Response:
        """The answer in one."""
        document = self._piece(generation.text, generation.tool_calls)
        finish = generation.done.finish_reason
        return JSONResponse(
            document
            | _end(finish)
            | timings(generation.usage)
            | {"edgelora": served_document(generation.accepted, generation.usage)}
        )

    async def pieces(self, opening: OpenedGeneration) -> AsyncIterator[bytes]:
        """The answer line by line."""
        numbers: dict[str, Any] = {}
        async for event in opening.events:
            match event.WhichOneof("event"):
                case "delta" if event.delta.text:
                    yield _line(self._piece(event.delta.text) | {"done": False})
                case "tool_call":
                    yield _line(self._piece("", [event.tool_call]) | {"done": False})
                case "usage":
                    served = served_document(opening.accepted, event.usage)
                    numbers = timings(event.usage) | {"edgelora": served}
                case "done":
                    yield _line(self._piece("") | _end(event.done.finish_reason) | numbers)

    def last_words(self, error: EdgeLoraError) -> bytes:
        """The line that says that the answer is cut, and why; no `done` follows."""
        return _line(error_document(error))

    def loaded(self, *, is_unload: bool) -> Response:
        """The answer to a request without a prompt, which only wants the model loaded or freed."""
        reason = "unload" if is_unload else "load"
        return JSONResponse(self._piece("") | {"done": True, "done_reason": reason})

    def _piece(self, text: str, tool_calls: Sequence[ToolCall] = ()) -> dict[str, Any]:
        document: dict[str, Any] = {"model": self._model, "created_at": now()}
        if self._path == "generate":
            return document | {"response": text}
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if tool_calls:
            message["tool_calls"] = [_tool_call(call) for call in tool_calls]
        return document | {"message": message}


def now() -> str:
    """The time as this dialect writes it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _tool_call(call: ToolCall) -> dict[str, object]:
    arguments = json.loads(call.arguments_json, parse_float=_finite, parse_int=_readable)
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}


def _finite(number: str) -> float:
    """A model may write a number beyond a double, which would come out as no JSON."""
    return max(-sys.float_info.max, min(sys.float_info.max, float(number)))


def _readable(number: str) -> float:
    """Nor does Python read a whole number of any length."""
    return int(number) if len(number) <= _MOST_DIGITS else _finite(number)


def _end(finish_reason: FinishReason) -> dict[str, object]:
    is_cut = finish_reason == FinishReason.FINISH_REASON_LENGTH
    return {"done": True, "done_reason": "length" if is_cut else "stop"}


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
