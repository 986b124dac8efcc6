"""`messages` and `tools` of /api/chat as the front door takes them. Pure."""

from __future__ import annotations

import json

from edgelora.v1.generation_pb2 import ChatMessage, Tool, ToolCall, ToolChoice, ToolUse
from services.gateway.http.json_fields import Fields

_ROLES = ("system", "user", "assistant", "tool")


def read_messages(body: Fields) -> tuple[list[ChatMessage], dict[str, str]]:
    """The messages, and what the client calls them.

    Two that clients keep are left out: an assistant's that says nothing, and a tool's whose call
    was trimmed from the history. Raises InvalidRequestError.
    """
    messages: list[ChatMessage] = []
    names: dict[str, str] = {}
    for index, item in enumerate(body.children("messages") or ()):
        message = _message(item)
        if message.role == "assistant" and not (message.content or message.tool_calls):
            continue
        if message.role == "tool" and not (messages and _is_called(messages[-1])):
            continue
        names[f"messages[{len(messages)}]"] = f"messages[{index}]"
        messages.append(message)
    return messages, names


def read_tools(body: Fields) -> ToolUse | None:
    """What the model may call, None for nothing. Raises InvalidRequestError."""
    listed = body.children("tools")
    if not listed:
        return None
    return ToolUse(
        tools=[_tool(item) for item in listed],
        choice=ToolChoice.TOOL_CHOICE_AUTO,
        is_parallel=True,
    )


def _is_called(before: ChatMessage) -> bool:
    """Whether a tool's message may follow."""
    return before.role == "tool" or bool(before.tool_calls)


def _message(item: Fields) -> ChatMessage:
    role = item.one_of("role", _ROLES)
    if role is None:
        raise item.invalid("role", "is missing")
    if item.items("images"):
        raise item.invalid("images", "are not served: this model reads text")
    return ChatMessage(
        role=role,
        content=item.text("content") or "",
        tool_calls=[_tool_call(call) for call in item.children("tool_calls") or ()],
        tool_call_id=item.text("tool_call_id") or "",
    )


def _tool_call(item: Fields) -> ToolCall:
    function = item.required_child("function")
    arguments = function.document("arguments")
    return ToolCall(
        id=item.text("id") or "",
        name=function.required_text("name"),
        arguments_json=json.dumps(arguments or {}, ensure_ascii=False),
    )


def _tool(item: Fields) -> Tool:
    item.one_of("type", ("function",))
    function = item.required_child("function")
    parameters = function.document("parameters")
    return Tool(
        name=function.required_text("name"),
        description=function.text("description") or "",
        parameters_json="" if parameters is None else json.dumps(parameters, ensure_ascii=False),
    )
