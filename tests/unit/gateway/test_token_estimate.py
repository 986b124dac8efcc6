"""The bound on a prompt's tokens is a bound, for any text and any byte-level tokenizer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgelora.v1.generation_pb2 import ChatMessage
from services.gateway.token_estimate import (
    conversation_texts,
    likely_prompt_tokens,
    most_prompt_tokens,
)


@given(st.lists(st.text(max_size=200), max_size=5))
def test_the_bound_covers_a_token_for_every_byte_and_the_guess_lies_below(texts):
    most = most_prompt_tokens(texts, len(texts))
    assert most > sum(len(text.encode()) for text in texts)
    assert 1 <= likely_prompt_tokens(texts, len(texts)) <= most


def test_a_conversation_counts_roles_and_contents():
    messages = [ChatMessage(role="user", content="Hi"), ChatMessage(role="assistant", content="Yo")]
    assert conversation_texts(messages) == ["user", "Hi", "assistant", "Yo"]
