"""Small pieces that the document is made of (OpenAPI 3.1, JSON Schema 2020-12)."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
DOCUMENT: Schema = {"type": "object"}


def ref(name: str) -> Schema:
    """A schema of `components`."""
    return {"$ref": f"#/components/schemas/{name}"}


def said(schema: Schema, description: str) -> Schema:
    """A schema with a sentence about it."""
    return {**schema, "description": description}


def maybe(schema: Schema) -> Schema:
    """A schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def word(*allowed: str) -> Schema:
    """One of a few strings."""
    return {"type": "string", "enum": list(allowed)}


def between(low: float, high: float) -> Schema:
    """A number of a range."""
    return {"type": "number", "minimum": low, "maximum": high}


def above(low: float, high: float) -> Schema:
    """A number of a range without its lower end."""
    return {"type": "number", "exclusiveMinimum": low, "maximum": high}


def whole(low: int, high: int | None = None) -> Schema:
    """A whole number."""
    bounds: Schema = {"type": "integer", "minimum": low}
    return bounds if high is None else {**bounds, "maximum": high}


def items(schema: Schema, *, low: int = 0, high: int | None = None) -> Schema:
    """A list."""
    found: Schema = {"type": "array", "items": schema}
    if low:
        found["minItems"] = low
    if high is not None:
        found["maxItems"] = high
    return found


def record(required: dict[str, Schema], **optional: Schema) -> Schema:
    """An object whose fields are all known."""
    return {**answer_record(required, **optional), "additionalProperties": False}


def answer_record(required: dict[str, Schema], **optional: Schema) -> Schema:
    """An object that may have further fields."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
    }
