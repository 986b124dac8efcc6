"""Answers as /api/chat writes them."""

import json
import sys

import pytest

from edgelora.v1.gateway_service_pb2 import Accepted, Done
from edgelora.v1.generation_pb2 import FinishReason, ToolCall
from services.gateway.http.generation_events import WholeGeneration
from services.gateway.http.ollama.answers import OllamaAnswer


def refuse(word):
    raise AssertionError(f"{word} is no JSON")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("1e999", sys.float_info.max),
        ("-1e999", -sys.float_info.max),
        ("7" * 400, int("7" * 400)),
        ("7" * 5000, sys.float_info.max),
        ("-0.5", -0.5),
        ("12", 12),
    ],
    ids=["too large", "too small", "long", "too long", "a fraction", "a whole one"],
)
def test_numbers_of_a_call_come_out_as_json_whatever_the_model_writes(written, told):
    call = ToolCall(name="f", arguments_json=f'{{"x": {written}}}')
    generation = WholeGeneration(
        accepted=Accepted(),
        tool_calls=[call],
        done=Done(finish_reason=FinishReason.FINISH_REASON_TOOL_CALLS),
    )
    body = OllamaAnswer("chat", "m").response(generation).body
    document = json.loads(body, parse_constant=refuse)
    assert document["message"]["tool_calls"][0]["function"]["arguments"] == {"x": told}
