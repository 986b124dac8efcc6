"""The whole document: which path takes what, answers what, and fails how."""

from __future__ import annotations

from typing import Any

from services.gateway.http.openapi import (
    encoding_schemas,
    ollama_schemas,
    openai_answers,
    openai_requests,
)
from services.gateway.http.openapi.parts import TEXT, Schema, answer_record, ref

_EVENTS = "text/event-stream"
_LINES = "application/x-ndjson"
_ERRORS = {
    "400": "A field is wrong; the error names it.",
    "401": "A valid API key is required.",
    "403": "The caller may not do this.",
    "404": "There is no such thing, or it is somebody else's.",
    "405": "The path does not take this method.",
    "409": "It does not fit what is served now.",
    "413": "The body is too large.",
    "429": "A quota is used up, or the node is busy: see Retry-After.",
    "500": "A fault of ours: report the request id.",
    "503": "The node is not ready, or lost the request: see Retry-After.",
    "504": "The deadline passed.",
}
_TENANTS = ("400", "401", "404", "405", "413", "429", "500", "503", "504")


def api_document() -> dict[str, Any]:
    """The document as JSON values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "EdgeLoRA",
            "version": "1",
            "description": "OpenAI's and Ollama's APIs over one model, or two, with many adapters. "
            "docs/http.md says what differs.",
        },
        "security": [{"key": []}],
        "paths": {**_openai_paths(), **_own_paths(), **_ollama_paths()},
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                **openai_requests.SCHEMAS,
                **openai_answers.SCHEMAS,
                **ollama_schemas.SCHEMAS,
                **encoding_schemas.SCHEMAS,
            },
        },
    }


def _openai_paths() -> dict[str, Any]:
    return {
        "/v1/models": {"get": _operation("The base model and the caller's adapters", "ModelList")},
        "/v1/models/{model}": {
            "parameters": [_in_path("model")],
            "get": _operation("One of them", "Model"),
        },
        "/v1/chat/completions": {
            "post": _operation(
                "Answers a conversation",
                "ChatCompletion",
                body="ChatCompletionRequest",
                streamed=(_EVENTS, "ChatCompletionChunk"),
                errors=(*_TENANTS, "403", "409"),
            )
        },
        "/v1/completions": {
            "post": _operation(
                "Continues a prompt",
                "Completion",
                body="CompletionRequest",
                streamed=(_EVENTS, "Completion"),
                errors=(*_TENANTS, "403", "409"),
            )
        },
        "/v1/responses": {
            "post": _operation(
                "Answers an input; nothing is stored",
                "Response",
                body="ResponseRequest",
                streamed=(_EVENTS, "ResponseEvent"),
                errors=(*_TENANTS, "403", "409"),
            )
        },
        "/v1/embeddings": {
            "post": _operation(
                "The vectors of texts",
                "EmbeddingList",
                body="EmbeddingRequest",
                errors=(*_TENANTS, "409"),
            )
        },
    }


def _own_paths() -> dict[str, Any]:
    return {
        "/v1/classify": {
            "post": _operation(
                "Which label of a classifier texts belong to",
                "ClassificationList",
                body="ClassifyRequest",
                errors=(*_TENANTS, "409"),
            )
        },
        "/v1/generations/{id}/strength": {
            "parameters": [_in_path("id")],
            "post": _operation(
                "Changes the strength of an adapter of a running generation",
                "Strengths",
                body="StrengthRequest",
            ),
        },
        "/v1/sessions": {"delete": _operation("Forgets all conversations", "Forgotten")},
        "/v1/sessions/{name}": {
            "parameters": [_in_path("name")],
            "delete": _operation("Forgets a conversation", "Forgotten"),
        },
        "/v1/usage": {"get": _operation("What the caller used, and what it may", "Usage")},
        "/healthz": {
            "get": _operation(
                "Whether some request could start",
                "Health",
                errors=("400", "405", "413", "500", "503"),
                is_open=True,
            )
        },
        "/openapi.json": {
            "get": _operation(
                "This document", "OpenApi", errors=("400", "405", "413", "500"), is_open=True
            )
        },
    }


def _ollama_paths() -> dict[str, Any]:
    def operation(summary: str, answer: str | None, **more: Any) -> dict[str, Any]:
        return _operation(summary, answer, error="OllamaError", **more)

    refused = ("400", "401", "403", "405", "413", "500")
    greeting = operation("Says that it runs", None, errors=("400", "405", "413", "500"))
    greeting["responses"]["200"] = {
        "description": "A line of text.",
        "content": {"text/plain": {"schema": TEXT}},
    }
    blob = operation("Refused: models are not changed here", None, errors=refused)
    return {
        "/": {"get": {**greeting, "security": []}},
        "/api/version": {"get": operation("The release this is a subset of", "OllamaVersion")},
        "/api/tags": {"get": operation("The models", "OllamaModels")},
        "/api/ps": {"get": operation("The model that is loaded", "OllamaModels")},
        "/api/show": {
            "post": operation("Everything about a model", "OllamaShown", body="OllamaName")
        },
        "/api/pull": {
            "post": operation(
                "Says that a known model is there",
                "OllamaPulled",
                body="OllamaName",
                streamed=(_LINES, "OllamaPulled"),
            )
        },
        "/api/chat": {
            "post": operation(
                "Answers a conversation",
                "OllamaChat",
                body="OllamaChatRequest",
                streamed=(_LINES, "OllamaChat"),
                errors=(*_TENANTS, "403", "409"),
            )
        },
        "/api/generate": {
            "post": operation(
                "Answers a prompt",
                "OllamaGenerated",
                body="OllamaGenerateRequest",
                streamed=(_LINES, "OllamaGenerated"),
                errors=(*_TENANTS, "403", "409"),
            )
        },
        **{
            f"/api/{name}": {
                method: operation("Refused: models are not changed here", None, errors=refused)
            }
            for name, method in (
                ("create", "post"),
                ("copy", "post"),
                ("delete", "delete"),
                ("push", "post"),
            )
        },
        "/api/blobs/{digest}": {"parameters": [_in_path("digest")], "post": blob},
        "/api/embed": {
            "post": operation(
                "The vectors of texts",
                "OllamaEmbedded",
                body="OllamaEmbedRequest",
                errors=(*_TENANTS, "409"),
            )
        },
        "/api/embeddings": {
            "post": operation(
                "The vector of a text",
                "OllamaEmbeddedOne",
                body="OllamaEmbedOneRequest",
                errors=(*_TENANTS, "409"),
            )
        },
    }


def _operation(
    summary: str,
    answer: str | None,
    *,
    body: str | None = None,
    streamed: tuple[str, str] | None = None,
    errors: tuple[str, ...] = _TENANTS,
    error: str = "Error",
    is_open: bool = False,
) -> dict[str, Any]:
    """One method of a path; `answer`, `body` and `error` name schemas.

    `streamed`: media type and schema of the pieces where the answer may come in pieces.
    """
    responses = {status: _response(_ERRORS[status], error) for status in sorted(errors)}
    if answer is not None:
        responses["200"] = _response("The answer.", answer)
        if streamed is not None:
            media_type, piece = streamed
            schema = _event_of(piece) if media_type == _EVENTS else ref(piece)
            responses["200"]["content"][media_type] = {"schema": schema}
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": ref(body)}},
        }
    return {**operation, "security": []} if is_open else operation


def _event_of(piece: str) -> Schema:
    """A server-sent event whose data is JSON, or the last one, [DONE]."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": ref(piece)}
    return answer_record({"data": {"anyOf": [data, {"const": "[DONE]"}]}}, event=TEXT)


def _response(description: str, schema: str) -> dict[str, Any]:
    return {
        "description": description,
        "headers": {"x-request-id": {"schema": TEXT}},
        "content": {"application/json": {"schema": ref(schema)}},
    }


def _in_path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": TEXT}
