"""`messages` of a chat completion, as the front door takes them."""

from __future__ import annotations

from collections.abc import Sequence

from edgelora.v1.generation_pb2 import ChatMessage, ToolCall
from services.gateway.http.json_fields import Fields

_ROLES = ("system", "developer", "user", "assistant", "tool")
_HARMLESS = ("name", "refusal", "annotations")
_PART_SEPARATOR = "\n"


def read_messages(fields: Fields) -> list[ChatMessage]:
    """Reads `messages`. What they may hold is checked by the front door.

    Raises InvalidRequestError.
    """
    listed = fields.children("messages")
    if listed is None:
        raise fields.invalid("messages", "is missing")
    return [_message(item) for item in listed]


def call_names(messages: Sequence[ChatMessage]) -> dict[str, str]:
    """What the front door calls the fields of tool calls -> what the client called them."""
    return {
        f"{call}.{before}": f"{call}.function.{after}"
        for index, message in enumerate(messages)
        for call in (
            f"messages[{index}].tool_calls[{place}]" for place in range(len(message.tool_calls))
        )
        for before, after in (("name", "name"), ("arguments_json", "arguments"))
    }


def read_content(item: Fields, name: str, part_types: tuple[str, ...]) -> str:
    """Text, or parts of text joined by line ends; "" where there is none.

    Raises InvalidRequestError: other parts, such as images, are not served.
    """
    if not isinstance(item.anything(name), list):
        if item.has(name) and not isinstance(item.anything(name), str):
            raise item.invalid(name, "must be a string or a list of parts")
        return item.text(name) or ""
    texts = []
    for part in item.children(name) or ():
        if part.one_of("type", part_types) is None:
            raise part.invalid("type", "is missing")
        texts.append(part.required_text("text"))
        part.ignore("annotations", "logprobs")
        part.finish()
    return _PART_SEPARATOR.join(texts)


def _message(item: Fields) -> ChatMessage:
    role = item.one_of("role", _ROLES)
    if role is None:
        raise item.invalid("role", "is missing")
    message = ChatMessage(
        role="system" if role == "developer" else role,
        content=read_content(item, "content", ("text",)),
    )
    item.ignore(*_HARMLESS)
    if role == "assistant":
        message.tool_calls.extend(_tool_call(call) for call in item.children("tool_calls") or ())
        item.refuse({"audio": "messages are text", "function_call": "use tool_calls"})
    if role == "tool":
        message.tool_call_id = item.text("tool_call_id") or ""
    item.finish()
    return message


def _tool_call(item: Fields) -> ToolCall:
    item.one_of("type", ("function",))
    function = item.required_child("function")
    call = ToolCall(
        id=item.text("id") or "",
        name=function.required_text("name"),
        arguments_json=function.required_text("arguments"),
    )
    function.finish()
    item.ignore("index")
    item.finish()
    return call
