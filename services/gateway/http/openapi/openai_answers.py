"""What the OpenAI paths and our own answer."""

from __future__ import annotations

from services.gateway.http.openapi.parts import (
    ANYTHING,
    COUNT,
    DOCUMENT,
    NUMBER,
    TEXT,
    Schema,
    answer_record,
    items,
    maybe,
    ref,
    said,
    word,
)

_REASON = word("stop", "length", "tool_calls")
_CHUNK: dict[str, Schema] = {
    "id": TEXT,
    "created": COUNT,
    "model": TEXT,
    "choices": items(DOCUMENT),
}

SCHEMAS: dict[str, Schema] = {
    "Error": answer_record(
        {
            "error": answer_record(
                {
                    "message": said(TEXT, "What is wrong and what helps."),
                    "type": TEXT,
                    "param": said(maybe(TEXT), "The field at fault."),
                    "code": said(maybe(TEXT), "The reason, see docs/errors.md."),
                }
            )
        }
    ),
    "Model": answer_record(
        {"id": TEXT, "object": word("model"), "created": COUNT, "owned_by": TEXT},
        parent=said(TEXT, "The base model of an adapter."),
        root=said(TEXT, "The digest of an adapter."),
    ),
    "ModelList": answer_record({"object": word("list"), "data": items(ref("Model"))}),
    "Served": answer_record(
        {
            "request_id": TEXT,
            "adapters": items(
                answer_record(
                    {"id": TEXT, "digest": TEXT, "weight": NUMBER, "version_of": maybe(TEXT)}
                )
            ),
            "degradations": items(
                answer_record(
                    {"step": TEXT, "rule": TEXT, "explanation": TEXT},
                    reading=maybe(NUMBER),
                    adapter=maybe(TEXT),
                    served=maybe(TEXT),
                    max_output_tokens=maybe(COUNT),
                )
            ),
            "routing": maybe(
                answer_record({"reason": TEXT, "base_share": NUMBER, "adapters": items(DOCUMENT)})
            ),
        },
        times=answer_record(
            {
                "queue_s": NUMBER,
                "adapter_load_s": NUMBER,
                "time_to_first_token_s": NUMBER,
                "total_s": NUMBER,
                "engine_s": NUMBER,
            }
        ),
    ),
    "CompletionUsage": answer_record(
        {
            "prompt_tokens": COUNT,
            "completion_tokens": COUNT,
            "total_tokens": COUNT,
            "prompt_tokens_details": answer_record({"cached_tokens": COUNT}),
        }
    ),
    "ChatCompletion": answer_record(
        {
            **_CHUNK,
            "object": word("chat.completion"),
            "system_fingerprint": TEXT,
            "choices": items(
                answer_record(
                    {
                        "index": COUNT,
                        "message": answer_record(
                            {
                                "role": word("assistant"),
                                "content": maybe(TEXT),
                                "refusal": maybe(TEXT),
                            },
                            tool_calls=items(ref("ToolCall")),
                        ),
                        "logprobs": maybe(DOCUMENT),
                        "finish_reason": _REASON,
                    }
                )
            ),
            "usage": ref("CompletionUsage"),
            "edgelora": ref("Served"),
        }
    ),
    "ChatCompletionChunk": answer_record(
        {**_CHUNK, "object": word("chat.completion.chunk")},
        usage=maybe(ref("CompletionUsage")),
        edgelora=said(ref("Served"), "In the first chunk, and in that with the usage."),
    ),
    "Completion": answer_record(
        {
            **_CHUNK,
            "object": word("text_completion"),
            "system_fingerprint": TEXT,
            "choices": items(
                answer_record(
                    {
                        "index": COUNT,
                        "text": TEXT,
                        "logprobs": maybe(DOCUMENT),
                        "finish_reason": maybe(_REASON),
                    }
                )
            ),
        },
        usage=maybe(ref("CompletionUsage")),
        edgelora=ref("Served"),
    ),
    "Response": answer_record(
        {
            "id": TEXT,
            "object": word("response"),
            "created_at": COUNT,
            "model": TEXT,
            "status": word("completed", "incomplete", "in_progress"),
            "incomplete_details": maybe(answer_record({"reason": TEXT})),
            "output": items(answer_record({"type": word("message", "function_call")})),
            "usage": maybe(
                answer_record(
                    {"input_tokens": COUNT, "output_tokens": COUNT, "total_tokens": COUNT}
                )
            ),
            "edgelora": ref("Served"),
        }
    ),
    "ResponseEvent": answer_record({"type": TEXT, "sequence_number": COUNT}),
    "Strengths": answer_record(
        {"id": TEXT, "adapters": items(answer_record({"digest": TEXT, "weight": NUMBER}))}
    ),
    "Forgotten": answer_record({"forgotten": COUNT}),
    "Usage": answer_record(
        {
            "tenant": TEXT,
            "requests": COUNT,
            "prompt_tokens": COUNT,
            "completion_tokens": COUNT,
            "engine_s": NUMBER,
            "energy_joules": maybe(NUMBER),
            "running": COUNT,
            "quotas": {"type": "object", "additionalProperties": COUNT},
        }
    ),
    "Health": answer_record({"status": word("ok")}),
    "OpenApi": answer_record({"openapi": TEXT, "info": DOCUMENT, "paths": ANYTHING}),
}
