"""Functions of the caller that the model may ask for, and the messages around them.

light = Tool(name="light_on", description="Turns a light on.", parameters={
    "type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]})
async for event in client.chat(messages, tools=[light]):
    if isinstance(event, ToolCall):
        messages += [Message.of_calls([event]), Message.of_result(event, "done")]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgelora.v1.generation_pb2 import ChatMessage, ToolChoice, ToolUse
from edgelora.v1.generation_pb2 import Tool as ToolMessage
from edgelora.v1.generation_pb2 import ToolCall as ToolCallMessage

_CHOICES = {
    "auto": ToolChoice.TOOL_CHOICE_AUTO,
    "none": ToolChoice.TOOL_CHOICE_NONE,
    "required": ToolChoice.TOOL_CHOICE_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function of the caller."""

    name: str
    """Letters, digits, "_", "-" and "."; at most 64."""
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    """JSON schema of the arguments, an object; None: no arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The model asks for one; the arguments satisfy the tool's schema."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation; a pair of role and content says the same of most."""

    role: str
    """system, user, assistant or tool."""
    content: str = ""
    tool_calls: Sequence[ToolCall] = ()
    """Of an assistant's message: what it called."""
    tool_call_id: str = ""
    """Of a tool's message: which call it answers."""

    @classmethod
    def of_calls(cls, calls: Sequence[ToolCall], content: str = "") -> Message:
        """The assistant's message that an answer with calls is."""
        return cls(role="assistant", content=content, tool_calls=calls)

    @classmethod
    def of_result(cls, call: ToolCall, content: str) -> Message:
        """What a call came to."""
        return cls(role="tool", content=content, tool_call_id=call.id)


Messages = Iterable[Message | tuple[str, str]]
"""Oldest first."""


def to_messages(messages: Messages) -> list[ChatMessage]:
    """The wire form of a conversation."""
    return [
        _message(each) if isinstance(each, Message) else ChatMessage(role=each[0], content=each[1])
        for each in messages
    ]


def to_tool_use(tools: Iterable[Tool], choice: str, *, is_parallel: bool) -> ToolUse | None:
    """The wire form of what may be called; None for nothing.

    `choice`: auto, none, required, or the name of a tool.
    """
    offered = [
        ToolMessage(
            name=tool.name,
            description=tool.description,
            parameters_json="" if tool.parameters is None else _json(tool.parameters),
        )
        for tool in tools
    ]
    if not offered:
        return None
    return ToolUse(
        tools=offered,
        choice=_CHOICES.get(choice, ToolChoice.TOOL_CHOICE_NAMED),
        name="" if choice in _CHOICES else choice,
        is_parallel=is_parallel,
    )


def from_tool_call(call: ToolCallMessage) -> ToolCall:
    """The typed form of a call."""
    return ToolCall(id=call.id, name=call.name, arguments=json.loads(call.arguments_json))


def _message(message: Message) -> ChatMessage:
    calls = [
        ToolCallMessage(id=call.id, name=call.name, arguments_json=_json(call.arguments))
        for call in message.tool_calls
    ]
    return ChatMessage(
        role=message.role,
        content=message.content,
        tool_calls=calls,
        tool_call_id=message.tool_call_id,
    )


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
