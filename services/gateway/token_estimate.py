"""How many tokens a request may cost, before anybody has tokenised it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from edgelora.v1.generation_pb2 import Conversation

# What a chat template adds: a default system message once, and a frame around each message.
_TEMPLATE_TOKENS = 64
_TOKENS_PER_MESSAGE = 8
_BYTES_PER_TOKEN = 4
_TEXT_FRAME_TOKENS = 2
"""An encoder's first and last token."""
_MESSAGES_PER_CALL = 12
"""What frames a call, its result or a tool is no longer than what frames so many messages."""
_MESSAGES_FOR_TOOLS = 32
"""Nor what tells of calls."""


def most_prompt_tokens(texts: Sequence[str], num_messages: int) -> int:
    """An upper bound: a byte-level vocabulary has no token shorter than a byte."""
    num_bytes = sum(len(text.encode()) for text in texts)
    return num_bytes + _TEMPLATE_TOKENS + _TOKENS_PER_MESSAGE * num_messages


def likely_prompt_tokens(texts: Sequence[str], num_messages: int) -> int:
    """A guess good enough for fair queueing: four bytes a token, as in English text."""
    num_bytes = sum(len(text.encode()) for text in texts)
    return 1 + num_bytes // _BYTES_PER_TOKEN + _TOKENS_PER_MESSAGE * num_messages


def most_text_tokens(texts: Sequence[str], max_context_tokens: int) -> int:
    """An upper bound of what an encoder reads of texts, which it cuts to its context."""
    return sum(min(len(text.encode()) + _TEXT_FRAME_TOKENS, max_context_tokens) for text in texts)


def likely_text_tokens(texts: Sequence[str], max_context_tokens: int) -> int:
    """A guess at what an encoder reads of texts, at least 1."""
    return sum(
        min(len(text.encode()) // _BYTES_PER_TOKEN + _TEXT_FRAME_TOKENS, max_context_tokens)
        for text in texts
    )


def conversation_texts(conversation: Conversation) -> list[str]:
    """Everything of a conversation that becomes tokens, the last message's content last."""
    texts = []
    for tool in conversation.tools.tools:
        # Blanks behind commas and colons may be added.
        texts += [tool.name, tool.description, tool.parameters_json, tool.parameters_json]
    for message in conversation.messages:
        for call in message.tool_calls:
            texts += [call.id, call.name, call.arguments_json, call.arguments_json]
        texts += [message.role, message.tool_call_id, message.content]
    return texts


def num_frames(conversation: Conversation) -> int:
    """How many messages, or as much as so many, the template puts a frame around."""
    messages = conversation.messages
    num_calls = sum(len(message.tool_calls) + (message.role == "tool") for message in messages)
    num_tools = len(conversation.tools.tools)
    num_told = _MESSAGES_FOR_TOOLS if num_tools else 0
    return len(messages) + num_told + _MESSAGES_PER_CALL * (num_calls + num_tools)
