"""Tools and constraints through a real gateway: calls become events, roles bound constraints."""

from __future__ import annotations

import pytest

from edgelora.errors import InvalidRequestError, PermissionDeniedError
from edgelora.generation import Accepted, Delta, Done, GenerationOptions, Usage
from edgelora.tools import Message, Tool, ToolCall
from edgelora.v1.generation_pb2 import FINISH_REASON_LENGTH, ToolChoice
from services.chassis.tool_call_text import BETWEEN, call_text

pytestmark = pytest.mark.integration

WEATHER = Tool(
    name="get_weather",
    description="Tells the weather.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)
CALL = call_text("get_weather", '{"city": "Oslo"}')
QUESTION = [("user", "How is the weather in Oslo?")]


def pieces(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


async def answer(client, **options):
    """The events of a chat with a tool: text, calls and the end."""
    text, calls, rest = "", [], []
    async for event in client.chat(QUESTION, tools=[WEATHER], **options):
        match event:
            case Delta():
                text += event.text
                assert not calls, "text behind a call"
            case ToolCall():
                calls.append(event)
            case Accepted():
                pass
            case _:
                rest.append(event)
    usage, done = rest
    assert isinstance(usage, Usage) and isinstance(done, Done)
    return text, calls, done, usage


@pytest.mark.parametrize("size", [1, 4, 1000])
async def test_calls_are_events_and_their_text_is_in_no_delta(gateway, size):
    client = await gateway.client()
    whole = f"One moment. {CALL}{BETWEEN}{CALL}"
    gateway.worker.script = pieces(whole, size)
    text, calls, done, usage = await answer(client)
    assert text == "One moment. "
    assert [(call.name, call.arguments) for call in calls] == [
        ("get_weather", {"city": "Oslo"})
    ] * 2
    assert len({call.id for call in calls}) == 2
    assert done == Done(finish_reason="tool_calls", stop_string=None)
    # What the calls took is counted all the same.
    assert usage.num_output_tokens == len(gateway.worker.script)
    await gateway.wait_until_idle()


async def test_a_cut_call_is_no_call(gateway):
    client = await gateway.client()
    gateway.worker.script = pieces(f"Hm. {CALL}"[:-3], 3)
    gateway.worker.finish_reason = FINISH_REASON_LENGTH
    text, calls, done, _ = await answer(client)
    assert (text, calls, done.finish_reason) == ("Hm. ", [], "length")


async def test_without_tools_the_marks_are_text(gateway):
    client = await gateway.client()
    gateway.worker.script = pieces(CALL, 5)
    events = [event async for event in client.chat(QUESTION)]
    assert "".join(event.text for event in events if isinstance(event, Delta)) == CALL
    assert events[-1].finish_reason == "stop"
    gateway.worker.script = pieces(CALL, 5)
    text, calls, done, _ = await answer(client, tool_choice="none")
    assert (text, calls, done.finish_reason) == (CALL, [], "stop")


async def test_the_worker_is_told_of_tools_calls_and_results(gateway):
    client = await gateway.client()
    call = ToolCall(id="call_1", name="get_weather", arguments={"city": "Oslo"})
    messages = [*QUESTION, Message.of_calls([call]), Message.of_result(call, "Rain.")]
    events = client.chat(messages, tools=[WEATHER], tool_choice="get_weather")
    async for _ in events:
        pass
    sent = (await gateway.worker.calls.get()).request.input.conversation
    assert [tool.name for tool in sent.tools.tools] == ["get_weather"]
    assert (sent.tools.choice, sent.tools.name) == (ToolChoice.TOOL_CHOICE_NAMED, "get_weather")
    assert sent.tools.is_parallel
    assert [message.role for message in sent.messages] == ["user", "assistant", "tool"]
    assert sent.messages[1].tool_calls[0].arguments_json == '{"city": "Oslo"}'
    assert sent.messages[2].tool_call_id == "call_1"


@pytest.mark.parametrize(
    ("messages", "tools", "options", "field"),
    [
        ([("tool", "Rain.")], [], {}, "messages[0].role"),
        ([*QUESTION, ("assistant", "")], [], {}, "messages[1].content"),
        ([*QUESTION, ("assistant", "Yes.")], [], {}, "messages[1].role"),
        (QUESTION, [Tool(name="two words")], {}, "tools.tools[0].name"),
        (QUESTION, [WEATHER, WEATHER], {}, "tools.tools[1].name"),
        (QUESTION, [WEATHER], {"tool_choice": "another"}, "tools.name"),
        (
            QUESTION,
            [Tool(name="a", parameters={"type": "string"})],
            {},
            "tools.tools[0].parameters_json",
        ),
        (
            QUESTION,
            [WEATHER],
            {"options": GenerationOptions(json_object=True)},
            "options.constraint",
        ),
        (
            QUESTION,
            [],
            {"options": GenerationOptions(json_schema={"not": {}})},
            "options.constraint.json_schema",
        ),
    ],
)
async def test_what_is_wrong_is_refused_before_a_worker_hears_of_it(
    gateway, messages, tools, options, field
):
    client = await gateway.client()
    with pytest.raises(InvalidRequestError) as caught:
        async for _ in client.chat(messages, tools=tools, **options):
            pass
    assert caught.value.field == field
    assert gateway.worker.calls.empty()


@pytest.mark.parametrize("bound", [{"regex": "[a-z]+"}, {"lark": 'start: "a"'}])
async def test_expressions_and_grammars_are_for_trusted_tenants(gateway, bound):
    client = await gateway.client()
    options = GenerationOptions(**bound)
    for events in (
        client.chat(QUESTION, options=options),
        client.generate("Hello", options=options),
    ):
        with pytest.raises(PermissionDeniedError) as caught:
            async for _ in events:
                pass
        assert "trusted" in caught.value.message
    assert gateway.worker.calls.empty()
    admin = await gateway.admin()
    await admin.update_tenant("acme", role="trusted")
    async for _ in client.chat(QUESTION, options=options):
        pass
    sent = (await gateway.worker.calls.get()).request.options.constraint
    (kind,) = bound
    assert getattr(sent, kind) == bound[kind]


async def test_a_schema_is_for_everybody(gateway):
    client = await gateway.client()
    options = GenerationOptions(json_schema=WEATHER.parameters)
    async for _ in client.generate("Hello", options=options):
        pass
    sent = (await gateway.worker.calls.get()).request.options.constraint
    assert sent.WhichOneof("kind") == "json_schema"
