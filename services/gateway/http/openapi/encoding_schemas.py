"""What the paths of the encoder take and answer."""

from __future__ import annotations

from services.chassis.encoding_limits import (
    MAX_TEXT_CHARS,
    MAX_TEXTS,
    MAX_TOLD_LABELS,
    MAX_TOP_LABELS,
)
from services.gateway.http.openapi.openai_requests import EXTENSIONS
from services.gateway.http.openapi.parts import (
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    Schema,
    answer_record,
    items,
    record,
    ref,
    said,
    whole,
    word,
)

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_CHARS}
_TEXTS: Schema = said(
    {"anyOf": [_TEXT, items(_TEXT, low=1, high=MAX_TEXTS)]},
    "What is longer than the encoder's context is cut.",
)
_MODEL: Schema = {"type": "string", "minLength": 1}
_EXTENSIONS = {
    name: EXTENSIONS[name] for name in ("adapter_strength", "priority", "user", "deadline_s")
}
_ANSWER: dict[str, Schema] = {
    "object": word("list"),
    "model": TEXT,
    "usage": answer_record({"prompt_tokens": COUNT, "total_tokens": COUNT}),
    "edgelora": ref("Served"),
}
_VECTOR = items(NUMBER)

SCHEMAS: dict[str, Schema] = {
    "EmbeddingRequest": record(
        {
            "model": said(_MODEL, "The encoder's name, an alias, `encoder:alias`, or a digest."),
            "input": _TEXTS,
        },
        encoding_format=said(word("float", "base64"), "base64: 32-bit floats, little-endian."),
        **_EXTENSIONS,
    ),
    "EmbeddingList": answer_record(
        {
            **_ANSWER,
            "data": items(
                answer_record(
                    {
                        "object": word("embedding"),
                        "index": COUNT,
                        "embedding": {"anyOf": [_VECTOR, TEXT]},
                    }
                )
            ),
        }
    ),
    "ClassifyRequest": record(
        {
            "model": said(_MODEL, "A classifier: an alias, `encoder:alias`, or a digest."),
            "input": _TEXTS,
        },
        top=said(
            whole(1, MAX_TOP_LABELS),
            f"Labels of each text; 1 where absent. Of all texts at most {MAX_TOLD_LABELS}.",
        ),
        **_EXTENSIONS,
    ),
    "ClassificationList": answer_record(
        {
            **_ANSWER,
            "data": items(
                answer_record(
                    {
                        "object": word("classification"),
                        "index": COUNT,
                        "label": said(TEXT, "The likeliest."),
                        "probability": NUMBER,
                        "out_of_scope": said(FLAG, "The text belongs to none of the labels."),
                        "labels": items(answer_record({"label": TEXT, "probability": NUMBER})),
                    }
                )
            ),
        }
    ),
    "OllamaEmbedRequest": answer_record({"model": _MODEL, "input": _TEXTS}, truncate=FLAG),
    "OllamaEmbedded": answer_record(
        {
            "model": TEXT,
            "embeddings": items(_VECTOR),
            "total_duration": COUNT,
            "load_duration": COUNT,
            "prompt_eval_count": COUNT,
        }
    ),
    "OllamaEmbedOneRequest": answer_record({"model": _MODEL, "prompt": _TEXT}, truncate=FLAG),
    "OllamaEmbeddedOne": answer_record({"embedding": _VECTOR}),
}
