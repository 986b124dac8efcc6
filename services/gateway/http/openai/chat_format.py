"""The shapes of a chat completion and of its chunks."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence

from starlette.responses import JSONResponse, Response

from edgelora.errors import EdgeLoraError
from edgelora.v1.generation_pb2 import FinishReason, TokenLogprob, ToolCall, Usage
from services.gateway.http.call import HttpCall
from services.gateway.http.generation_events import OpenedGeneration, WholeGeneration
from services.gateway.http.openai.events import DONE, MEDIA_TYPE, error_event, event
from services.gateway.http.openai.logprobs import chat_logprobs
from services.gateway.http.openai.shared_fields import SharedFields
from services.gateway.http.openai.usage import usage_document
from services.gateway.http.served import served_document

FINISH_REASONS: Mapping[int, str] = {
    FinishReason.FINISH_REASON_STOP: "stop",
    FinishReason.FINISH_REASON_LENGTH: "length",
    FinishReason.FINISH_REASON_TOOL_CALLS: "tool_calls",
}


class ChatFormat:
    """How POST /v1/chat/completions answers."""

    media_type = MEDIA_TYPE

    def __init__(self, call: HttpCall, shared: SharedFields) -> None:
        self._head: dict[str, object] = {
            "id": f"chatcmpl-{call.request_id}",
            "created": int(time.time()),
            "model": shared.model,
            "system_fingerprint": fingerprint(call.door.model.digest),
        }
        self._includes_usage = shared.includes_usage

    def response(self, generation: WholeGeneration) -> Response:
        """A chat.completion."""
        message: dict[str, object] = {
            "role": "assistant",
            "content": generation.text or (None if generation.tool_calls else ""),
            "refusal": None,
        }
        if generation.tool_calls:
            message["tool_calls"] = [_tool_call(item) for item in generation.tool_calls]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": _logprobs(generation.logprobs),
            "finish_reason": FINISH_REASONS[generation.done.finish_reason],
        }
        return JSONResponse(
            {
                **self._head,
                "object": "chat.completion",
                "choices": [choice],
                "usage": usage_document(generation.usage),
                "edgelora": served_document(generation.accepted, generation.usage),
            }
        )

    async def pieces(self, opening: OpenedGeneration) -> AsyncIterator[bytes]:
        """Chunks: the role, what is said, why it ended, and what it took."""
        first = self._chunk({"role": "assistant", "content": ""})
        yield event({**first, "edgelora": served_document(opening.accepted)})
        num_calls = 0
        usage = Usage()
        async for item in opening.events:
            match item.WhichOneof("event"):
                case "delta" if item.delta.text or item.delta.logprobs:
                    delta: dict[str, object] = {"content": item.delta.text}
                    yield event(self._chunk(delta, logprobs=item.delta.logprobs))
                case "tool_call":
                    called = {"index": num_calls, **_tool_call(item.tool_call)}
                    yield event(self._chunk({"tool_calls": [called]}))
                    num_calls += 1
                case "usage":
                    usage = item.usage
                case "done":
                    reason = FINISH_REASONS[item.done.finish_reason]
                    yield event(self._chunk({}, finish_reason=reason))
        if self._includes_usage:
            yield event(
                {
                    **self._head,
                    "object": "chat.completion.chunk",
                    "choices": [],
                    "usage": usage_document(usage),
                    "edgelora": served_document(opening.accepted, usage),
                }
            )
        yield DONE

    def last_words(self, error: EdgeLoraError) -> bytes:
        """An error, and no [DONE]."""
        return error_event(error)

    def _chunk(
        self,
        delta: Mapping[str, object],
        *,
        logprobs: Sequence[TokenLogprob] = (),
        finish_reason: str | None = None,
    ) -> dict[str, object]:
        choice = {
            "index": 0,
            "delta": delta,
            "logprobs": _logprobs(logprobs),
            "finish_reason": finish_reason,
        }
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "usage": None} if self._includes_usage else chunk


def fingerprint(model_digest: str) -> str:
    """`system_fingerprint`: names the base model's weights."""
    return f"fp_{model_digest.removeprefix('sha256:')[:16]}"


def _logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, object] | None:
    return chat_logprobs(tokens) if tokens else None


def _tool_call(call: ToolCall) -> dict[str, object]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments_json},
    }
