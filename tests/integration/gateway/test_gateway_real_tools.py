"""Tools and schemas through a whole node: real processes, real model."""

from __future__ import annotations

import json

import jsonschema
import pytest
import pytest_asyncio

from edgelora.errors import InvalidRequestError
from edgelora.generation import Delta, Done, GenerationOptions
from edgelora.tools import Message, Tool, ToolCall
from tests.support.node_bench import node_bench

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

LIGHT = Tool(
    name="light",
    description="Switches the light of a room.",
    parameters={
        "type": "object",
        "properties": {
            "room": {"enum": ["kitchen", "bedroom"]},
            "level": {"type": "integer", "minimum": 0, "maximum": 10},
        },
        "required": ["room", "level"],
        "additionalProperties": False,
    },
)
QUESTION = ("user", "Dim the light in the bedroom, please.")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client():
    async with node_bench() as node:
        await node.gateway.client("acme")
        client = await node.gateway.client("acme")
        await client.register_adapter(node.adapter(1), alias="mine")
        yield client


async def read(events):
    """Text, calls and the end of an answer."""
    text, calls, done = "", [], None
    async for event in events:
        match event:
            case Delta():
                text += event.text
            case ToolCall():
                calls.append(event)
            case Done():
                done = event
    return text, calls, done


@pytest.mark.parametrize("adapters", [(), "mine"], ids=["base", "adapter"])
async def test_a_call_its_result_and_the_answer(client, adapters):
    text, calls, done = await read(
        client.chat(
            [QUESTION],
            tools=[LIGHT],
            tool_choice="required",
            parallel_tool_calls=False,
            adapters=adapters,
        )
    )
    assert (text, done.finish_reason) == ("", "tool_calls")
    (call,) = calls
    assert call.name == "light"
    jsonschema.validate(call.arguments, LIGHT.parameters)
    messages = [QUESTION, Message.of_calls(calls), Message.of_result(call, "The light is dim.")]
    options = GenerationOptions(max_tokens=30)
    text, calls, done = await read(
        client.chat(messages, tools=[LIGHT], tool_choice="none", options=options)
    )
    assert text
    assert calls == []
    assert done.finish_reason in ("stop", "length")


async def test_an_answer_that_has_to_satisfy_a_schema_does(client):
    options = GenerationOptions(json_schema=LIGHT.parameters, max_tokens=60, temperature=1.0)
    text, _, done = await read(client.chat([QUESTION], options=options, adapters="mine"))
    assert done.finish_reason == "stop"
    jsonschema.validate(json.loads(text), LIGHT.parameters)


async def test_what_only_the_worker_finds_wrong_comes_back_with_its_field(client):
    options = GenerationOptions(json_schema={"type": "string", "pattern": "("})
    with pytest.raises(InvalidRequestError) as caught:
        await read(client.chat([QUESTION], options=options))
    assert caught.value.field == "options.constraint.json_schema"
    assert "regular expression" in caught.value.message
