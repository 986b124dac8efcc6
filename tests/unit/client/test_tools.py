"""Tools, calls and messages as the client's typed values and on the wire."""

import json

import pytest

from edgelora.generation import Done, GenerationOptions, from_event
from edgelora.tools import Message, Tool, ToolCall, to_messages, to_tool_use
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.generation_pb2 import FINISH_REASON_TOOL_CALLS, ToolChoice
from edgelora.v1.generation_pb2 import ToolCall as ToolCallMessage

LIGHT = Tool(name="light", description="Ä light.", parameters={"type": "object"})
CALL = ToolCall(id="c1", name="light", arguments={"room": "Küche"})


def test_messages_are_pairs_or_messages():
    sent = to_messages(
        [
            ("user", "Hi"),
            Message.of_calls([CALL], "One moment."),
            Message.of_result(CALL, "done"),
        ]
    )
    assert [(each.role, each.content) for each in sent] == [
        ("user", "Hi"),
        ("assistant", "One moment."),
        ("tool", "done"),
    ]
    (call,) = sent[1].tool_calls
    assert (call.id, call.name) == ("c1", "light")
    assert json.loads(call.arguments_json) == CALL.arguments
    assert sent[2].tool_call_id == "c1"


@pytest.mark.parametrize(
    ("choice", "expected", "name"),
    [
        ("auto", ToolChoice.TOOL_CHOICE_AUTO, ""),
        ("none", ToolChoice.TOOL_CHOICE_NONE, ""),
        ("required", ToolChoice.TOOL_CHOICE_REQUIRED, ""),
        ("light", ToolChoice.TOOL_CHOICE_NAMED, "light"),
    ],
)
def test_a_choice_is_a_word_or_a_name(choice, expected, name):
    use = to_tool_use([LIGHT, Tool(name="off")], choice, is_parallel=True)
    assert (use.choice, use.name, use.is_parallel) == (expected, name, True)
    assert [json.loads(tool.parameters_json or "null") for tool in use.tools] == [
        {"type": "object"},
        None,
    ]
    assert to_tool_use([], choice, is_parallel=True) is None


def test_a_call_comes_back_with_its_arguments():
    message = ToolCallMessage(id="c1", name="light", arguments_json='{"room": "Küche"}')
    assert from_event(pb.GenerationEvent(tool_call=message)) == CALL
    done = pb.GenerationEvent(done=pb.Done(finish_reason=FINISH_REASON_TOOL_CALLS))
    assert from_event(done) == Done(finish_reason="tool_calls", stop_string=None)


@pytest.mark.parametrize(
    ("given", "kind", "value"),
    [
        ({"json_object": True}, "json_object", True),
        ({"json_schema": {"const": "Ä"}}, "json_schema", '{"const": "Ä"}'),
        ({"json_schema": '{"a"'}, "json_schema", '{"a"'),
        ({"regex": "a+"}, "regex", "a+"),
        ({"lark": "start: /a/"}, "lark", "start: /a/"),
    ],
)
def test_a_constraint_is_one_of_four(given, kind, value):
    constraint = GenerationOptions(**given).to_message().constraint
    assert constraint.WhichOneof("kind") == kind
    assert getattr(constraint, kind) == value


def test_no_constraint_is_absent_and_two_are_refused():
    assert not GenerationOptions().to_message().HasField("constraint")
    with pytest.raises(ValueError, match="json_object, regex"):
        GenerationOptions(json_object=True, regex="a").to_message()
