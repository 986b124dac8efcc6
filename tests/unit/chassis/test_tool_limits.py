"""What a request may say of tools, calls and constraints; each at its limit and beyond (T17)."""

import json

import pytest

from edgelora.errors import InvalidRequestError
from edgelora.v1.generation_pb2 import (
    ChatMessage,
    Constraint,
    GenerationOptions,
    Tool,
    ToolCall,
    ToolChoice,
    ToolUse,
)
from services.chassis.generation_limits import (
    check_conversation,
    check_options,
    check_tool_use,
)
from services.chassis.tool_limits import arguments_schema, may_call

USER = ChatMessage(role="user", content="Hi")
CALL = ToolCall(id="c", name="light", arguments_json="{}")
CALLS = ChatMessage(role="assistant", tool_calls=[CALL])
RESULT = ChatMessage(role="tool", content="done", tool_call_id="c")
NAMED, REQUIRED, NONE = (
    ToolChoice.TOOL_CHOICE_NAMED,
    ToolChoice.TOOL_CHOICE_REQUIRED,
    ToolChoice.TOOL_CHOICE_NONE,
)


def tools(*offered, **fields):
    return ToolUse(tools=offered or [Tool(name="light")], **fields)


def many(count, **fields):
    return [Tool(name=f"tool_{number}", **fields) for number in range(count)]


def parameters(**schema):
    return Tool(name="light", parameters_json=json.dumps(schema))


def long_parameters(num_chars):
    return json.dumps({"description": "x" * (num_chars - len('{"description": ""}'))})


@pytest.mark.parametrize(
    "use",
    [
        ToolUse(),
        ToolUse(choice=NONE),
        tools(),
        tools(*many(128)),
        tools(Tool(name="a" * 64, description="d" * 1024)),
        tools(Tool(name="A-b_c.9")),
        tools(parameters(type="object", properties={"a": {"type": "string"}})),
        tools(parameters()),
        tools(*many(2, parameters_json=long_parameters(65_536))),
        tools(choice=NAMED, name="light"),
        tools(choice=REQUIRED),
    ],
)
def test_tools_within_their_limits(use):
    check_tool_use(use, GenerationOptions())


@pytest.mark.parametrize(
    ("use", "field"),
    [
        (tools(*many(129)), "tools"),
        (tools(*many(3, parameters_json=long_parameters(50_000))), "tools"),
        (
            tools(*many(1, parameters_json=long_parameters(65_537))),
            "tools.tools[0].parameters_json",
        ),
        (tools(Tool(name="")), "tools.tools[0].name"),
        (tools(Tool(name="a" * 65)), "tools.tools[0].name"),
        (tools(Tool(name='a"')), "tools.tools[0].name"),
        (tools(Tool(name="a\n")), "tools.tools[0].name"),
        (tools(Tool(name="ä")), "tools.tools[0].name"),
        (tools(*many(1), Tool(name="tool_0")), "tools.tools[1].name"),
        (tools(Tool(name="a", description="d" * 1025)), "tools.tools[0].description"),
        (tools(Tool(name="a", description="\0")), "tools.tools[0].description"),
        (tools(Tool(name="a", parameters_json="[]")), "tools.tools[0].parameters_json"),
        (tools(Tool(name="a", parameters_json="{")), "tools.tools[0].parameters_json"),
        (tools(parameters(type="array")), "tools.tools[0].parameters_json"),
        (tools(parameters(type=["object", "null"])), "tools.tools[0].parameters_json"),
        (tools(choice=NAMED), "tools.name"),
        (tools(choice=NAMED, name="other"), "tools.name"),
        (tools(choice=REQUIRED, name="light"), "tools.name"),
        (tools(name="light"), "tools.name"),
        (ToolUse(choice=REQUIRED), "tools.choice"),
        (tools(choice=99), "tools.choice"),
    ],
)
def test_tools_beyond_their_limits(use, field):
    with pytest.raises(InvalidRequestError) as caught:
        check_tool_use(use, GenerationOptions())
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field} ")


def test_a_constraint_goes_with_tools_that_are_not_called():
    options = GenerationOptions(constraint=Constraint(json_object=True))
    check_tool_use(ToolUse(), options)
    check_tool_use(tools(choice=NONE), options)
    assert not may_call(tools(choice=NONE))
    with pytest.raises(InvalidRequestError) as caught:
        check_tool_use(tools(), options)
    assert caught.value.field == "options.constraint"


def test_arguments_are_an_object_that_is_closed_unless_it_says_otherwise():
    closed = {"type": "object", "additionalProperties": False}
    assert arguments_schema(Tool(name="a"), "tool") == {**closed, "properties": {}}
    properties = {"a": {"type": "string"}}
    described = {"a": {"type": "string", "format": "colour", "description": "Which."}}
    read = arguments_schema(parameters(properties=described), "tool")
    assert read == {**closed, "properties": properties}
    free = parameters(properties=properties, additionalProperties=True)
    assert arguments_schema(free, "tool")["additionalProperties"] is True
    assert arguments_schema(parameters(), "tool") == {"type": "object"}


@pytest.mark.parametrize(
    "messages",
    [
        [USER, CALLS, RESULT],
        [USER, CALLS, RESULT, RESULT],
        [USER, CALLS, ChatMessage(role="tool"), USER],
        [USER, ChatMessage(role="assistant", content="One moment.", tool_calls=[CALL] * 32), USER],
        [USER, CALLS, RESULT, CALLS, RESULT],
    ],
)
def test_conversations_with_calls(messages):
    check_conversation(messages)


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([RESULT], "messages[0].role"),
        ([USER, RESULT], "messages[1].role"),
        ([USER, CALLS, USER, RESULT], "messages[3].role"),
        ([USER, CALLS], "messages[1].role"),
        ([USER, ChatMessage(role="assistant"), USER], "messages[1].content"),
        ([ChatMessage(role="user", content="a", tool_calls=[CALL])], "messages[0].tool_calls"),
        ([ChatMessage(role="user", content="a", tool_call_id="c")], "messages[0].tool_call_id"),
        ([USER, CALLS, ChatMessage(role="tool", content="\0")], "messages[2].content"),
        (
            [USER, CALLS, ChatMessage(role="tool", tool_call_id="c" * 65)],
            "messages[2].tool_call_id",
        ),
        ([USER, CALLS, ChatMessage(role="tool", tool_call_id="\n")], "messages[2].tool_call_id"),
        (
            [USER, ChatMessage(role="assistant", tool_calls=[CALL] * 33), USER],
            "messages[1].tool_calls",
        ),
        (
            [USER, ChatMessage(role="assistant", tool_calls=[ToolCall(name="a b")]), USER],
            "messages[1].tool_calls[0].name",
        ),
        (
            [USER, ChatMessage(role="assistant", tool_calls=[ToolCall(name="a")]), USER],
            "messages[1].tool_calls[0].arguments_json",
        ),
        (
            [
                USER,
                ChatMessage(
                    role="assistant", tool_calls=[ToolCall(name="a", arguments_json="[1]")]
                ),
                USER,
            ],
            "messages[1].tool_calls[0].arguments_json",
        ),
    ],
)
def test_conversations_with_calls_that_are_wrong(messages, field):
    with pytest.raises(InvalidRequestError) as caught:
        check_conversation(messages)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("constraint", "field"),
    [
        (Constraint(), "options.constraint"),
        (Constraint(json_object=False), "options.constraint.json_object"),
        (Constraint(json_schema=""), "options.constraint.json_schema"),
        (Constraint(json_schema="{" * 10**6), "options.constraint.json_schema"),
        (Constraint(regex=""), "options.constraint.regex"),
        (Constraint(regex="a" * 4097), "options.constraint.regex"),
        (Constraint(regex="a{1001}"), "options.constraint.regex"),
        (Constraint(regex="\0abc"), "options.constraint.regex"),
        (Constraint(lark=""), "options.constraint.lark"),
        (Constraint(lark="a" * 32_769), "options.constraint.lark"),
        (Constraint(lark="start: /a\0/"), "options.constraint.lark"),
    ],
)
def test_constraints_beyond_their_limits_X05_X06(constraint, field):
    with pytest.raises(InvalidRequestError) as caught:
        check_options(GenerationOptions(constraint=constraint))
    assert caught.value.field == field


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint(json_object=True),
        Constraint(json_schema="{}"),
        Constraint(regex="a" * 4096),
        Constraint(lark="a" * 32_768),
    ],
)
def test_constraints_within_their_limits(constraint):
    check_options(GenerationOptions(constraint=constraint))
