"""Server-sent events (HTML Living Standard, section 9.2) that hold JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from edgelora.errors import EdgeLoraError
from services.gateway.http.openai.dialect import error_document

MEDIA_TYPE = "text/event-stream"
DONE = b"data: [DONE]\n\n"
"""Ends a whole answer, and nothing else."""


def event(document: Mapping[str, object], name: str | None = None) -> bytes:
    """One event; JSON has no line ends, so its data is one line."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()


def error_event(error: EdgeLoraError) -> bytes:
    """The last event of an answer that is cut."""
    return event(error_document(error), "error")
