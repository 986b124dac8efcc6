"""The shapes in which people keep conversations, read as one: a list of role and content. Pure.

`{"messages": [...]}` (OpenAI), `{"prompt", "completion"}` (texts or lists of messages, as TRL has
them), `{"instruction", "input", "output"}` (Alpaca) and `{"conversations": [{"from", "value"}]}`
(ShareGPT). What one of them says beside the conversation is left aside.
"""

from __future__ import annotations

from typing import Any

from edgelora.toolchain.data_text import is_text
from edgelora.toolchain.errors import ToolchainError

ROLES = ("system", "user", "assistant")

Conversation = list[dict[str, str]]
"""Messages in order, each with `role` and `content`."""

_SPEAKERS = {
    "system": "system", "human": "user", "user": "user", "gpt": "assistant",
    "assistant": "assistant", "model": "assistant", "chatgpt": "assistant", "bing": "assistant",
    "bard": "assistant",
}  # fmt: skip
"""What ShareGPT's files call the roles."""


def conversation_of(document: object, where: str) -> Conversation:
    """Reads one entry of a data file.

    Raises ToolchainError that begins with `where` and names what is wrong, never what was written.
    """
    entry: dict[str, Any] = document if isinstance(document, dict) else {}
    if "messages" in entry:
        conversation = _messages(entry["messages"], "messages", where)
    elif "conversations" in entry:
        conversation = _spoken(entry["conversations"], where)
    elif "prompt" in entry:
        answer = "completion" if "completion" in entry else "response"
        conversation = [
            *_side(entry["prompt"], "prompt", "user", where),
            *_side(entry.get(answer), answer, "assistant", where),
        ]
    elif "instruction" in entry:
        conversation = _instructed(entry, where)
    else:
        raise ToolchainError(
            f"{where} has no 'messages' list, nor prompt and completion, instruction and output, "
            "or conversations: write one of them"
        )
    if all(message["role"] != "assistant" for message in conversation):
        raise ToolchainError(f"{where} has no assistant message: there is nothing to learn from it")
    return conversation


def _messages(value: object, key: str, where: str) -> Conversation:
    if not isinstance(value, list) or not value:
        raise ToolchainError(f"{where} has no {key!r} list")
    conversation: Conversation = []
    for message in value:
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if role not in ROLES:
            raise ToolchainError(f"{where}: 'role' must be one of {', '.join(ROLES)}")
        conversation.append({"role": role, "content": _text(content, "content", where)})
    return conversation


def _spoken(value: object, where: str) -> Conversation:
    if not isinstance(value, list) or not value:
        raise ToolchainError(f"{where} has no 'conversations' list")
    conversation: Conversation = []
    for turn in value:
        speaker = turn.get("from") if isinstance(turn, dict) else None
        role = _SPEAKERS.get(speaker) if isinstance(speaker, str) else None
        if role is None:
            raise ToolchainError(f"{where}: 'from' must be one of {', '.join(_SPEAKERS)}")
        conversation.append({"role": role, "content": _text(turn.get("value"), "value", where)})
    return conversation


def _side(value: object, key: str, role: str, where: str) -> Conversation:
    """One side of a prompt and its completion."""
    if isinstance(value, list):
        return _messages(value, key, where)
    return [{"role": role, "content": _text(value, key, where)}]


def _instructed(entry: dict[str, Any], where: str) -> Conversation:
    instruction = _text(entry["instruction"], "instruction", where)
    more = entry.get("input") or ""
    if more:
        instruction = f"{instruction}\n\n{_text(more, 'input', where)}"
    system = entry.get("system") or ""
    return [
        *([{"role": "system", "content": _text(system, "system", where)}] if system else []),
        {"role": "user", "content": instruction},
        {"role": "assistant", "content": _text(entry.get("output"), "output", where)},
    ]


def _text(value: object, key: str, where: str) -> str:
    if not is_text(value):
        raise ToolchainError(
            f"{where}: {key!r} must be text that is not empty, of whole characters"
        )
    return value
