"""How many tokens a request may cost, before anybody has tokenised it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from edgelora.v1.generation_pb2 import ChatMessage

# What a chat template adds: a default system message once, and a frame around each message.
_TEMPLATE_TOKENS = 64
_TOKENS_PER_MESSAGE = 8
_BYTES_PER_TOKEN = 4


def most_prompt_tokens(texts: Sequence[str], num_messages: int) -> int:
    """An upper bound: a byte-level vocabulary has no token shorter than a byte."""
    num_bytes = sum(len(text.encode()) for text in texts)
    return num_bytes + _TEMPLATE_TOKENS + _TOKENS_PER_MESSAGE * num_messages


def likely_prompt_tokens(texts: Sequence[str], num_messages: int) -> int:
    """A guess good enough for fair queueing: four bytes a token, as in English text."""
    num_bytes = sum(len(text.encode()) for text in texts)
    return 1 + num_bytes // _BYTES_PER_TOKEN + _TOKENS_PER_MESSAGE * num_messages


def conversation_texts(messages: Sequence[ChatMessage]) -> list[str]:
    """Everything of a conversation that becomes tokens."""
    return [text for message in messages for text in (message.role, message.content)]
