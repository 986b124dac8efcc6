"""What OpenAI's fields mean, as messages of the front door."""

import pytest

from edgelora.errors import AdapterNotFoundError, InvalidRequestError
from edgelora.v1.generation_pb2 import ChatMessage, PriorityClass, ToolCall, ToolChoice
from services.gateway.http.json_fields import Fields
from services.gateway.http.openai.input_items import read_input
from services.gateway.http.openai.messages import read_messages
from services.gateway.http.openai.shared_fields import read_shared
from services.gateway.http.openai.tools import read_response_format, read_tools

DIGEST = "sha256:" + "a" * 64


def shared(**values):
    fields = Fields({"model": "base", **values})
    found = read_shared(fields, "base", max_tokens=("max_completion_tokens", "max_tokens"))
    fields.finish()
    return found


def refused(read, *arguments, **more):
    with pytest.raises(InvalidRequestError) as caught:
        read(*arguments, **more)
    return caught.value


@pytest.mark.parametrize(
    ("name", "adapters"),
    [
        ("base", []),
        ("email", ["email"]),
        ("base:email", ["email"]),
        (DIGEST, [DIGEST]),
        ("auto", ["auto"]),
        ("Base", ["Base"]),
    ],
)
def test_a_model_is_the_exact_base_or_an_adapter_p08(name, adapters):
    found = shared(model=name).extensions.selections
    assert [selection.adapter for selection in found] == adapters


@pytest.mark.parametrize("name", ["base ", "base:", "a/b", "../x", "e\0", "sha256:0"])
def test_a_name_that_no_model_can_have_is_not_found_p08(name):
    with pytest.raises(AdapterNotFoundError) as caught:
        shared(model=name)
    assert caught.value.field == "model"
    with pytest.raises(AdapterNotFoundError) as caught:
        shared(adapters=[{"id": name}])
    assert caught.value.field == "adapters[0].id"


@pytest.mark.parametrize("name", ["", " ", "\n"])
def test_a_blank_model_is_refused_p08(name):
    assert refused(shared, model=name).field == "model"


def test_a_missing_model_is_refused_p08():
    assert refused(read_shared, Fields({}), "base", max_tokens=("max_tokens",)).field == "model"


def test_strengths_of_one_adapter_and_of_several():
    (one,) = shared(model="email", adapter_strength=0.5).extensions.selections
    assert (one.adapter, one.strength) == ("email", 0.5)
    listed = [{"id": "base:email", "weight": 0.25}, {"id": DIGEST}]
    two = shared(adapters=listed).extensions.selections
    assert [(item.adapter, item.HasField("strength")) for item in two] == [
        ("email", True),
        (DIGEST, False),
    ]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"adapter_strength": 1}, "adapter_strength"),
        ({"model": "auto", "adapter_strength": 1}, "adapter_strength"),
        ({"model": "email", "adapters": [{"id": "x"}]}, "adapters"),
        ({"adapters": [{"id": "x"}], "adapter_strength": 1}, "adapter_strength"),
        ({"adapters": [{"id": "base"}]}, "adapters[0].id"),
        ({"adapters": [{"id": "x", "weight": "1"}]}, "adapters[0].weight"),
        ({"adapters": [{"id": "x", "path": "/"}]}, "adapters[0]"),
        ({"adapters": "x"}, "adapters"),
        ({"logit_bias": {"999999": 5, "-1": 1}}, "logit_bias"),
        ({"n": 2}, "n"),
        ({"n": 0}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_completion_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"stream": "true"}, "stream"),
        ({"temperature": "hot"}, "temperature"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"else": 1}}, "stream_options"),
        ({"priority": 1}, "priority"),
        ({"priority": "soon"}, "priority"),
        ({"stop": [1]}, "stop"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"stop_token_ids": [True]}, "stop_token_ids"),
        ({"stop_token_ids": [2**40]}, "stop_token_ids"),
        ({"seed": 1.5}, "seed"),
        ({"session": 5}, "session"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"deadline_s": -1.5}, "deadline_s"),
        ({"deadline_s": True}, "deadline_s"),
    ],
)
def test_errors_name_the_field_p04_p05_p07(values, field):
    assert refused(shared, **values).field == field


def test_numbers_go_where_they_belong():
    found = shared(
        temperature=0.5,
        top_p=0.9,
        min_p=0.1,
        top_k=5,
        repetition_penalty=1.1,
        presence_penalty=-1,
        frequency_penalty=1,
        seed=-1,
        stop=["a", "b"],
        stop_token_ids=[7],
        max_tokens=1e9,
        logit_bias={},
        n=1,
        priority="batch",
        session="kitchen",
        user="ann",
        no_degraded=True,
        deadline_s=90.5,
    )
    sampling, stop = found.options.sampling, found.options.stop
    assert (sampling.temperature, sampling.top_p, sampling.min_p) == (0.5, 0.9, 0.1)
    assert (sampling.top_k, sampling.seed) == (5, 2**64 - 1)
    assert sampling.repetition_penalty == 1.1
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (-1.0, 1.0)
    assert (list(stop.stop_strings), list(stop.stop_token_ids)) == (["a", "b"], [7])
    assert stop.max_tokens == 10**9
    assert found.extensions.priority == PriorityClass.PRIORITY_CLASS_BATCH
    assert (found.extensions.session, found.extensions.user) == ("kitchen", "ann")
    assert found.extensions.degradation.is_refused
    assert found.extensions.deadline_s == 90.5


def test_a_huge_limit_is_clipped_and_all_tokens_are_kept_without_top_k():
    found = shared(max_completion_tokens=2**62, top_k=-1)
    assert found.options.stop.max_tokens == 2**32 - 1
    assert not found.options.sampling.HasField("top_k")


def test_harmless_fields_change_nothing():
    plain = shared()
    assert shared(store=True, metadata={"a": "b"}, service_tier="flex") == plain


@pytest.mark.parametrize(
    ("limit", "name"),
    [({}, "max_completion_tokens"), ({"max_tokens": 3}, "max_tokens")],
)
def test_the_limit_has_the_name_the_client_used(limit, name):
    assert shared(**limit).rename({})("options.stop.max_tokens") == name


def test_messages_of_every_role():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    found = read_messages(
        Fields(
            {
                "messages": [
                    {"role": "developer", "content": "be brief"},
                    {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "ann"},
                    {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
                    {"role": "tool", "content": "42", "tool_call_id": "c1"},
                ]
            }
        )
    )
    assert found == [
        ChatMessage(role="system", content="be brief"),
        ChatMessage(role="user", content="a"),
        ChatMessage(
            role="assistant", tool_calls=[ToolCall(id="c1", name="f", arguments_json="{}")]
        ),
        ChatMessage(role="tool", content="42", tool_call_id="c1"),
    ]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "messages[0].role"),
        ({"role": "root", "content": "x"}, "messages[0].role"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": [5]}, "messages[0].content[0]"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]},
            "messages[0].content[0].type",
        ),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": "x", "tool_calls": []}, "messages[0]"),
        ({"role": "assistant", "function_call": {"name": "f"}}, "messages[0].function_call"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
    ],
)
def test_errors_in_messages_name_their_place(message, field):
    assert refused(read_messages, Fields({"messages": [message]})).field == field


def test_missing_messages_are_refused():
    assert refused(read_messages, Fields({"messages": None})).field == "messages"


TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
}


@pytest.mark.parametrize(
    ("choice", "wanted", "name"),
    [
        (None, ToolChoice.TOOL_CHOICE_AUTO, ""),
        ("auto", ToolChoice.TOOL_CHOICE_AUTO, ""),
        ("none", ToolChoice.TOOL_CHOICE_NONE, ""),
        ("required", ToolChoice.TOOL_CHOICE_REQUIRED, ""),
        (
            {"type": "function", "function": {"name": "f"}},
            ToolChoice.TOOL_CHOICE_NAMED,
            "f",
        ),
    ],
)
def test_tools_and_the_choice_among_them(choice, wanted, name):
    found = read_tools(Fields({"tools": [TOOL], "tool_choice": choice}), is_nested=True)
    is_auto = wanted == ToolChoice.TOOL_CHOICE_AUTO
    assert (found.choice, found.name, found.is_parallel) == (wanted, name, is_auto)
    (tool,) = found.tools
    assert (tool.name, tool.description, tool.parameters_json) == ("f", "d", '{"type":"object"}')


@pytest.mark.parametrize("is_parallel", [True, False])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_whether_several_tools_may_be_called_is_the_clients_word(choice, is_parallel):
    values = {"tools": [TOOL], "tool_choice": choice, "parallel_tool_calls": is_parallel}
    assert read_tools(Fields(values), is_nested=True).is_parallel is is_parallel


def test_tools_of_a_response_are_flat():
    flat = {"type": "function", "name": "f", "parameters": None, "strict": True}
    values = {
        "tools": [flat],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
    }
    found = read_tools(Fields(values), is_nested=False)
    assert (found.tools[0].name, found.name, found.is_parallel) == ("f", "f", False)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [TOOL], "tool_choice": "some"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.type"),
    ],
)
def test_errors_in_tools_name_their_place(values, field):
    assert refused(read_tools, Fields(values), is_nested=True).field == field


def test_no_tools_are_none():
    assert read_tools(Fields({"tools": [], "tool_choice": "auto"}), is_nested=True) is None


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, "json_object"),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
            "json_schema",
        ),
    ],
)
def test_response_formats(wanted, kind):
    fields = Fields({"response_format": wanted})
    found = read_response_format(fields, "response_format", is_nested=True)
    assert (found.WhichOneof("kind") if found else None) == kind
    if kind == "json_schema":
        assert found.json_schema == '{"type":"object"}'


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({}, "response_format.type"),
        ({"type": "grammar"}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {}}, "response_format.json_schema.name"),
        (
            {"type": "json_schema", "json_schema": {"name": "n"}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_errors_in_formats_name_their_place(wanted, field):
    fields = Fields({"response_format": wanted})
    error = refused(read_response_format, fields, "response_format", is_nested=True)
    assert error.field == field


def test_the_input_of_a_response_becomes_messages_that_keep_their_names():
    items = [
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    ]
    messages, names = read_input(Fields({"instructions": "be brief", "input": items}))
    assert [(message.role, message.content) for message in messages] == [
        ("system", "be brief\n\nbe kind"),
        ("user", "hi"),
        ("assistant", ""),
        ("tool", "1"),
        ("assistant", "a"),
    ]
    assert [call.id for call in messages[2].tool_calls] == ["c1", "c2"]
    assert messages[3].tool_call_id == "c1"
    assert names["messages[1]"] == "input[1]"
    assert names["messages[4].content"] == "input[5].content"
    assert names["messages[2].tool_calls[1].arguments_json"] == "input[3].arguments"
    assert names["messages[3].content"] == "input[4].output"


def test_a_plain_input_is_the_users_message():
    messages, names = read_input(Fields({"input": "hi"}))
    assert messages == [ChatMessage(role="user", content="hi")]
    assert names["messages[0].content"] == "input"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "input"),
        ({"input": 5}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": "x", "else": 1}]}, "input[0]"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
    ],
)
def test_errors_in_the_input_name_their_place(body, field):
    assert refused(read_input, Fields(body)).field == field
