"""What the OpenAI paths take."""

from __future__ import annotations

from services.chassis.generation_limits import (
    MAX_LOGPROBS,
    MAX_MESSAGES,
    MAX_SESSION_CHARS,
    MAX_STOP_STRING_CHARS,
    MAX_STOP_STRINGS,
    MAX_STOP_TOKEN_IDS,
)
from services.gateway.http.openapi.parts import (
    ANYTHING,
    DOCUMENT,
    FLAG,
    TEXT,
    Schema,
    above,
    between,
    items,
    maybe,
    record,
    ref,
    said,
    whole,
    word,
)
from services.gateway.validation import MAX_ADAPTERS, MAX_STRENGTH, MAX_USER_CHARS

_MAX_INT = 2**63 - 1
_STOP: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_STRING_CHARS}
_MODEL: Schema = {
    "type": "string",
    "minLength": 1,
    "description": "The base model's name, an alias, `base:alias`, a digest, or `auto`.",
}
_NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}
_HARMLESS = (
    "metadata",
    "moderation",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
)

EXTENSIONS: dict[str, Schema] = {
    "adapter_strength": said(
        between(0, MAX_STRENGTH), "Of the one adapter that `model` names; 1 where absent."
    ),
    "adapters": said(
        items(ref("WeightedAdapter"), high=MAX_ADAPTERS),
        "A weighted sum; goes with the base model's name in `model`.",
    ),
    "priority": word("interactive", "background", "batch"),
    "session": {"type": "string", "maxLength": MAX_SESSION_CHARS},
    "fallback_adapter": said(TEXT, "Served under pressure in the place of one switched off."),
    "deadline_s": said(
        {"type": "number", "exclusiveMinimum": 0},
        "Seconds the whole answer may take; the node's default where absent.",
    ),
    "no_degraded": said(FLAG, "Refuse rather than serve degraded."),
    "user": {"type": "string", "maxLength": MAX_USER_CHARS},
}

_SHARED: dict[str, Schema] = {
    **EXTENSIONS,
    "temperature": between(0, 2),
    "top_p": above(0, 1),
    "top_k": whole(-1, 2**32 - 1),
    "min_p": between(0, 1),
    "repetition_penalty": above(0, 2),
    "presence_penalty": between(-2, 2),
    "frequency_penalty": between(-2, 2),
    "seed": whole(-_MAX_INT, _MAX_INT),
    "stop": {"anyOf": [_STOP, items(_STOP, high=MAX_STOP_STRINGS)]},
    "stop_token_ids": items(whole(0, 2**32 - 1), high=MAX_STOP_TOKEN_IDS),
    "n": {"const": 1},
    "best_of": {"const": 1},
    "logit_bias": record({}),
    "stream": FLAG,
    "stream_options": record({}, include_usage=FLAG, include_obfuscation=FLAG),
    **dict.fromkeys(_HARMLESS, said(ANYTHING, "Taken, without effect.")),
}
_MAX_TOKENS = whole(1, _MAX_INT)
_TEXT_PART = record({"type": word("text"), "text": TEXT})
_INPUT_PART = record({"type": word("input_text", "output_text"), "text": TEXT})
_FUNCTION: dict[str, Schema] = {
    "description": {"type": "string", "maxLength": 1024},
    "parameters": said(DOCUMENT, "JSON schema of the arguments, an object."),
    "strict": FLAG,
}
_SCHEMA: dict[str, Schema] = {"description": TEXT, "strict": FLAG}
_CHOICE = word("none", "auto", "required")

SCHEMAS: dict[str, Schema] = {
    "WeightedAdapter": record({"id": TEXT}, weight=between(0, MAX_STRENGTH)),
    "ChatMessage": record(
        {"role": word("system", "developer", "user", "assistant", "tool")},
        content=maybe({"anyOf": [TEXT, items(_TEXT_PART)]}),
        name=TEXT,
        tool_call_id=said(TEXT, "Of a tool's message: the call it answers."),
        tool_calls=said(items(ref("ToolCall")), "Of an assistant's message."),
        refusal=maybe(TEXT),
    ),
    "ToolCall": record(
        {"function": record({"name": _NAME, "arguments": TEXT})},
        id=TEXT,
        type=word("function"),
    ),
    "Tool": record({"type": word("function"), "function": record({"name": _NAME}, **_FUNCTION)}),
    "ResponseFormat": {
        "oneOf": [
            record({"type": word("text", "json_object")}),
            record(
                {
                    "type": word("json_schema"),
                    "json_schema": record({"name": TEXT, "schema": DOCUMENT}, **_SCHEMA),
                }
            ),
        ]
    },
    "ChatCompletionRequest": record(
        {"model": _MODEL, "messages": items(ref("ChatMessage"), low=1, high=MAX_MESSAGES)},
        **_SHARED,
        max_completion_tokens=_MAX_TOKENS,
        max_tokens=_MAX_TOKENS,
        logprobs=FLAG,
        top_logprobs=whole(0, MAX_LOGPROBS),
        response_format=ref("ResponseFormat"),
        tools=items(ref("Tool"), high=128),
        tool_choice={
            "anyOf": [
                _CHOICE,
                record({"type": word("function"), "function": record({"name": _NAME})}),
            ]
        },
        parallel_tool_calls=FLAG,
        modalities=items(word("text"), high=1),
        reasoning_effort=said(ANYTHING, "Taken, without effect."),
        verbosity=said(ANYTHING, "Taken, without effect."),
    ),
    "CompletionRequest": record(
        {"model": _MODEL, "prompt": {"anyOf": [TEXT, items(TEXT, low=1, high=1)]}},
        **_SHARED,
        max_tokens=_MAX_TOKENS,
        logprobs=whole(0, MAX_LOGPROBS),
        echo={"const": False},
        suffix=maybe({"const": ""}),
    ),
    "ResponseItem": {
        "anyOf": [
            record(
                {
                    "role": word("system", "developer", "user", "assistant"),
                    "content": {"anyOf": [TEXT, items(_INPUT_PART)]},
                },
                type=word("message"),
                id=TEXT,
                status=TEXT,
            ),
            record(
                {
                    "type": word("function_call"),
                    "call_id": TEXT,
                    "name": _NAME,
                    "arguments": TEXT,
                },
                id=TEXT,
                status=TEXT,
            ),
            record(
                {
                    "type": word("function_call_output"),
                    "call_id": TEXT,
                    "output": {"anyOf": [TEXT, items(_INPUT_PART)]},
                },
                id=TEXT,
                status=TEXT,
            ),
        ]
    },
    "ResponseRequest": record(
        {"model": _MODEL, "input": {"anyOf": [TEXT, items(ref("ResponseItem"), low=1)]}},
        **_SHARED,
        instructions=TEXT,
        max_output_tokens=_MAX_TOKENS,
        include=items(word("message.output_text.logprobs")),
        top_logprobs=whole(0, MAX_LOGPROBS),
        text=record({}, format=ref("ResponseTextFormat"), verbosity=ANYTHING),
        tools=items(record({"type": word("function"), "name": _NAME}, **_FUNCTION), high=128),
        tool_choice={"anyOf": [_CHOICE, record({"type": word("function"), "name": _NAME})]},
        parallel_tool_calls=FLAG,
        truncation=word("disabled"),
        reasoning=said(ANYTHING, "Taken, without effect."),
        max_tool_calls=said(ANYTHING, "Taken, without effect."),
    ),
    "ResponseTextFormat": {
        "oneOf": [
            record({"type": word("text", "json_object")}),
            record({"type": word("json_schema"), "name": TEXT, "schema": DOCUMENT}, **_SCHEMA),
        ]
    },
    "StrengthRequest": record(
        {"strength": between(0, MAX_STRENGTH)},
        adapter=said(TEXT, "Alias or digest; may be absent where the generation has one adapter."),
    ),
}
