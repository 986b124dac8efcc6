"""What the Ollama paths take and answer."""

from __future__ import annotations

from services.gateway.http.openapi.openai_requests import EXTENSIONS
from services.gateway.http.openapi.parts import (
    COUNT,
    DOCUMENT,
    FLAG,
    NUMBER,
    TEXT,
    Schema,
    answer_record,
    items,
    ref,
    said,
    word,
)

_ENTRY: dict[str, Schema] = {
    "name": TEXT,
    "model": TEXT,
    "digest": TEXT,
    "size": COUNT,
    "details": DOCUMENT,
}
_NUMBERS: dict[str, Schema] = dict.fromkeys(
    (
        "total_duration",
        "load_duration",
        "prompt_eval_count",
        "prompt_eval_duration",
        "eval_count",
        "eval_duration",
    ),
    COUNT,
)
_GENERATING: dict[str, Schema] = {
    **EXTENSIONS,
    "stream": said(FLAG, "Lines of JSON unless false."),
    "format": {"anyOf": [word("json", ""), said(DOCUMENT, "A JSON schema.")]},
    "options": said(DOCUMENT, "temperature, top_k, top_p, min_p, seed, stop, num_predict, ..."),
    "keep_alive": {"anyOf": [TEXT, NUMBER]},
    "think": said({"const": False}, "The model does not think aloud."),
}
_PIECE: dict[str, Schema] = {"model": TEXT, "created_at": TEXT}
_END: dict[str, Schema] = {
    "done": FLAG,
    "done_reason": word("stop", "length", "load", "unload"),
    "edgelora": ref("Served"),
    **_NUMBERS,
}

SCHEMAS: dict[str, Schema] = {
    "OllamaError": answer_record({"error": TEXT}),
    "OllamaVersion": answer_record({"version": TEXT}),
    "OllamaModels": answer_record({"models": items(answer_record(_ENTRY))}),
    "OllamaName": answer_record({"model": TEXT}, stream=FLAG),
    "OllamaShown": answer_record(
        {
            "modelfile": TEXT,
            "parameters": TEXT,
            "template": TEXT,
            "details": DOCUMENT,
            "model_info": DOCUMENT,
            "capabilities": items(TEXT),
        }
    ),
    "OllamaPulled": answer_record({"status": TEXT}),
    "OllamaMessage": answer_record(
        {"role": word("system", "user", "assistant", "tool")},
        content=TEXT,
        tool_calls=items(DOCUMENT),
        tool_call_id=TEXT,
    ),
    "OllamaChatRequest": answer_record(
        {"model": TEXT, "messages": items(ref("OllamaMessage"))},
        **_GENERATING,
        tools=items(DOCUMENT),
    ),
    "OllamaGenerateRequest": answer_record(
        {"model": TEXT}, **_GENERATING, prompt=TEXT, system=TEXT, raw=FLAG
    ),
    "OllamaChat": answer_record({**_PIECE, "message": ref("OllamaMessage")}, **_END),
    "OllamaGenerated": answer_record({**_PIECE, "response": TEXT}, **_END),
}
