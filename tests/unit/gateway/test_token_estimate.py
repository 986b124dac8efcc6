"""The bound on a prompt's tokens is a bound, for any text and any byte-level tokenizer."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgelora.v1.generation_pb2 import ChatMessage, Conversation, Tool, ToolCall, ToolUse
from services.gateway.token_estimate import (
    conversation_texts,
    likely_prompt_tokens,
    likely_text_tokens,
    most_prompt_tokens,
    most_text_tokens,
    num_frames,
)
from services.inference.chat_template import ChatTemplate
from services.inference.tool_prompt import OfferedTool
from tests.support.small_tokenizer import CHAT_TEMPLATE
from tests.support.tiny_encoder import tiny_tokenizer
from tests.support.tool_template import KNOWS_TOOLS


@given(st.lists(st.text(max_size=200), max_size=5))
def test_the_bound_covers_a_token_for_every_byte_and_the_guess_lies_below(texts):
    most = most_prompt_tokens(texts, len(texts))
    assert most > sum(len(text.encode()) for text in texts)
    assert 1 <= likely_prompt_tokens(texts, len(texts)) <= most


def test_a_conversation_counts_roles_contents_calls_and_tools():
    conversation = Conversation(
        messages=[
            ChatMessage(role="user", content="Hi"),
            ChatMessage(role="assistant", tool_calls=[ToolCall(name="look", arguments_json="{}")]),
            ChatMessage(role="tool", content="Yo", tool_call_id="1"),
        ],
        tools=ToolUse(tools=[Tool(name="look", description="Looks.")]),
    )
    texts = conversation_texts(conversation)
    assert {"user", "Hi", "assistant", "look", "{}", "tool", "1", "Yo", "Looks."} <= set(texts)
    assert texts[-1] == "Yo"
    assert num_frames(conversation) > 3
    assert num_frames(Conversation(messages=conversation.messages[:1])) == 1


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
NAME = st.from_regex(r"[a-z_]{1,20}", fullmatch=True)
JSON_OBJECT = st.dictionaries(TEXT, st.recursive(TEXT, st.lists, max_leaves=8), max_size=4).map(
    lambda value: json.dumps(value, separators=(",", ":"))
)
CALLS = st.builds(ToolCall, id=TEXT, name=NAME, arguments_json=JSON_OBJECT)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.builds(Tool, name=NAME, description=TEXT, parameters_json=JSON_OBJECT), max_size=5),
    st.lists(st.tuples(TEXT, st.lists(CALLS, max_size=3), TEXT), max_size=4),
    st.sampled_from([CHAT_TEMPLATE, KNOWS_TOOLS]),
)
def test_the_bound_covers_tools_in_either_form(tools, turns, source):
    messages = [ChatMessage(role="user", content="Hi")]
    for content, calls, result in turns:
        messages.append(ChatMessage(role="assistant", content=content, tool_calls=calls))
        messages.append(ChatMessage(role="tool", content=result, tool_call_id="1"))
    conversation = Conversation(messages=messages, tools=ToolUse(tools=tools))
    offered = [OfferedTool(t.name, t.description, json.loads(t.parameters_json)) for t in tools]
    text, marker = ChatTemplate(source, ("<|im_start|>", "<|im_end|>"), {}).render(
        messages, offered
    )
    num_bytes = len(text.replace(marker, "").encode())
    texts = conversation_texts(conversation)
    assert num_bytes <= most_prompt_tokens(texts, num_frames(conversation))


TINY_ENCODER = tiny_tokenizer()
TINY_ENCODER.no_padding()
TINY_ENCODER.no_truncation()


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXT.filter(bool), min_size=1, max_size=4))
def test_the_bound_covers_what_an_encoder_reads(texts):
    lengths = [len(TINY_ENCODER.encode(text).ids) for text in texts]
    assert sum(lengths) <= most_text_tokens(texts, 10**6)
    assert sum(min(length, 8) for length in lengths) <= most_text_tokens(texts, 8)
    assert len(texts) <= likely_text_tokens(texts, 8) <= most_text_tokens(texts, 8)
