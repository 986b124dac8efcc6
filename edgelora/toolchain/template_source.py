"""The chat template that comes with a model."""

from __future__ import annotations

from edgelora.toolchain.errors import ToolchainError, refusing
from services.inference.chat_template import ChatTemplate

_BROKEN = "the model's chat template is broken: copy the model again"


def read_template(value: object) -> str | None:
    """Returns the Jinja source; None where the model has none.

    `value`: a text, or a list of named ones of which "default" is the chat. Raises ToolchainError
    for another kind, and for what the worker could not compile.
    """
    if isinstance(value, list):
        value = _default_of(value)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ToolchainError(_BROKEN)
    with refusing(_BROKEN):
        ChatTemplate(value, (), {})
    return value


def _default_of(entries: list[object]) -> object:
    default = None
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ToolchainError(_BROKEN)
        if entry["name"] == "default":
            default = entry.get("template")
    return default
