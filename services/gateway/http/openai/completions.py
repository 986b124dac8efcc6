"""POST /v1/completions: a plain prompt is continued, with no template."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

from starlette.responses import JSONResponse, Response

from edgelora.errors import EdgeLoraError
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.generation_pb2 import TokenLogprob, Usage
from services.chassis.generation_limits import MAX_LOGPROBS
from services.gateway.http.call import HttpCall
from services.gateway.http.field_names import renamed
from services.gateway.http.generation_answer import answer
from services.gateway.http.generation_events import OpenedGeneration, WholeGeneration
from services.gateway.http.json_fields import Fields
from services.gateway.http.openai.chat_format import FINISH_REASONS, fingerprint
from services.gateway.http.openai.events import DONE, MEDIA_TYPE, error_event, event
from services.gateway.http.openai.logprobs import TextLogprobs
from services.gateway.http.openai.shared_fields import SharedFields, read_shared
from services.gateway.http.openai.usage import usage_document
from services.gateway.http.served import served_document, served_headers

_NAMES = {"options.logprobs": "logprobs"}
_NOT_SERVED = {
    "echo": "the prompt is not sent back",
    "suffix": "the model only continues",
}


async def complete_text(call: HttpCall) -> Response:
    """Continues a prompt."""
    caller = await call.authenticate()
    fields = await call.json_fields()
    door = call.door
    shared = read_shared(fields, door.model.name, door.encoder_name, max_tokens=("max_tokens",))
    request = _read_request(fields, shared)
    rename = shared.rename(_NAMES)
    with renamed(rename):
        stream = call.door.generate(caller, request, remaining_s=shared.extensions.deadline_s)
    return await answer(
        call,
        stream,
        CompletionFormat(call, shared),
        rename=rename,
        is_streamed=shared.is_streamed,
        headers=served_headers,
    )


def _read_request(fields: Fields, shared: SharedFields) -> pb.GenerateRequest:
    num_top = fields.integer("logprobs", 0, MAX_LOGPROBS)
    if num_top is not None:
        shared.options.logprobs = num_top
    request = pb.GenerateRequest(
        prompt=_read_prompt(fields),
        adapters=shared.extensions.selections,
        options=shared.options,
        priority=shared.extensions.priority,
        user=shared.extensions.user,
        session=shared.extensions.session,
        degradation=shared.extensions.degradation,
    )
    fields.refuse(_NOT_SERVED)
    fields.finish()
    return request


def _read_prompt(fields: Fields) -> str:
    prompt = fields.anything("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if prompt is None:
        raise fields.invalid("prompt", "is missing")
    if not isinstance(prompt, str):
        raise fields.invalid("prompt", "must be one string: token ids and several are not served")
    return prompt


class CompletionFormat:
    """How POST /v1/completions answers."""

    media_type = MEDIA_TYPE

    def __init__(self, call: HttpCall, shared: SharedFields) -> None:
        self._head: dict[str, object] = {
            "id": f"cmpl-{call.request_id}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": shared.model,
            "system_fingerprint": fingerprint(call.door.model.digest),
        }
        self._includes_usage = shared.includes_usage
        self._logprobs = TextLogprobs()

    def response(self, generation: WholeGeneration) -> Response:
        """A text_completion."""
        reason = FINISH_REASONS[generation.done.finish_reason]
        return JSONResponse(
            {
                **self._head,
                "choices": [self._choice(generation.text, generation.logprobs, reason)],
                "usage": usage_document(generation.usage),
                "edgelora": served_document(generation.accepted, generation.usage),
            }
        )

    async def pieces(self, opening: OpenedGeneration) -> AsyncIterator[bytes]:
        """Chunks of text, why it ended, and what it took."""
        served: dict[str, object] = {"edgelora": served_document(opening.accepted)}
        usage = Usage()
        async for item in opening.events:
            match item.WhichOneof("event"):
                case "delta" if item.delta.text or item.delta.logprobs:
                    choice = self._choice(item.delta.text, item.delta.logprobs)
                    yield event({**self._chunk(choice), **served})
                    served = {}
                case "usage":
                    usage = item.usage
                case "done":
                    choice = self._choice("", (), FINISH_REASONS[item.done.finish_reason])
                    yield event({**self._chunk(choice), **served})
        if self._includes_usage:
            yield event(
                {
                    **self._head,
                    "choices": [],
                    "usage": usage_document(usage),
                    "edgelora": served_document(opening.accepted, usage),
                }
            )
        yield DONE

    def last_words(self, error: EdgeLoraError) -> bytes:
        """An error, and no [DONE]."""
        return error_event(error)

    def _chunk(self, choice: dict[str, object]) -> dict[str, object]:
        chunk = {**self._head, "choices": [choice]}
        return {**chunk, "usage": None} if self._includes_usage else chunk

    def _choice(
        self, text: str, logprobs: Sequence[TokenLogprob], finish_reason: str | None = None
    ) -> dict[str, object]:
        return {
            "index": 0,
            "text": text,
            "logprobs": self._logprobs.document(logprobs) if logprobs else None,
            "finish_reason": finish_reason,
        }
