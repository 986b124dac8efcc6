"""`instructions` and `input` of a response, as the messages of a conversation."""

from __future__ import annotations

from edgelora.v1.generation_pb2 import ChatMessage, ToolCall
from services.gateway.http.json_fields import Fields
from services.gateway.http.openai.messages import read_content

_ROLES = ("system", "developer", "user", "assistant")
_PART_TYPES = ("input_text", "output_text", "text")
_KINDS = ("message", "function_call", "function_call_output")


def read_input(fields: Fields) -> tuple[list[ChatMessage], dict[str, str]]:
    """Returns the messages, and how the client called each.

    Raises InvalidRequestError.
    """
    conversation = _Conversation()
    instructions = fields.text("instructions")
    if instructions:
        conversation.add(ChatMessage(role="system", content=instructions), "instructions", "")
    if isinstance(fields.anything("input"), str):
        text = fields.required_text("input")
        conversation.add(ChatMessage(role="user", content=text), "input", "")
    else:
        listed = fields.children("input")
        if listed is None:
            raise fields.invalid("input", "is missing")
        for item in listed:
            conversation.read(item)
    return conversation.messages, conversation.names


class _Conversation:
    def __init__(self) -> None:
        self.messages: list[ChatMessage] = []
        self.names: dict[str, str] = {}

    def add(self, message: ChatMessage, name: str, content: str = ".content") -> None:
        """Adds a message; a system message joins the one right before it.

        `name` is what the client called it, and with `content` what its text.
        """
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role == message.role == "system":
            last.content = f"{last.content}\n\n{message.content}"
            return
        path = f"messages[{len(self.messages)}]"
        self.messages.append(message)
        self.names[path] = name
        self.names[f"{path}.content"] = name + content

    def read(self, item: Fields) -> None:
        """Adds an item of `input`."""
        kind = item.one_of("type", _KINDS) or "message"
        item.ignore("id", "status")
        if kind == "function_call":
            self._add_call(item)
        elif kind == "function_call_output":
            message = ChatMessage(
                role="tool",
                content=read_content(item, "output", _PART_TYPES),
                tool_call_id=item.required_text("call_id"),
            )
            self.names[f"messages[{len(self.messages)}].tool_call_id"] = item.path("call_id")
            self.add(message, item.own_path, ".output")
        else:
            role = item.one_of("role", _ROLES)
            if role is None:
                raise item.invalid("role", "is missing")
            content = read_content(item, "content", _PART_TYPES)
            role = "system" if role == "developer" else role
            item.ignore("phase")
            self.add(ChatMessage(role=role, content=content), item.own_path)
        item.finish()

    def _add_call(self, item: Fields) -> None:
        """What the model called joins what it said before."""
        call = ToolCall(
            id=item.required_text("call_id"),
            name=item.required_text("name"),
            arguments_json=item.required_text("arguments"),
        )
        if not self.messages or self.messages[-1].role != "assistant":
            self.add(ChatMessage(role="assistant"), item.own_path)
        last = self.messages[-1]
        path = f"messages[{len(self.messages) - 1}].tool_calls[{len(last.tool_calls)}]"
        for before, after in (("id", "call_id"), ("name", "name"), ("arguments_json", "arguments")):
            self.names[f"{path}.{before}"] = item.path(after)
        last.tool_calls.append(call)
