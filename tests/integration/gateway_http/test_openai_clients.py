"""Programs people have: the openai package, llm and langchain-openai, as their manuals say."""

import asyncio
import json
import os
import sys
from pathlib import Path

import openai
import pytest
import yaml
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from edgelora.errors import QueueFullError
from tests.support.openai_node import BASE, HELLO

pytestmark = pytest.mark.integration

LLM = Path(sys.executable).parent / "llm"
CALL = '<tool_call>\n{"name": "switch", "arguments": {"lamp": "kitchen", "on": true}}\n</tool_call>'
TOOL = {
    "type": "function",
    "function": {
        "name": "switch",
        "description": "Switches a lamp.",
        "parameters": {
            "type": "object",
            "properties": {"lamp": {"type": "string"}, "on": {"type": "boolean"}},
            "required": ["lamp", "on"],
        },
    },
}


class Lamp(BaseModel):
    """What a parsed answer holds."""

    lamp: str
    on: bool


async def test_the_package_streams_and_parses(node):
    async with node.client() as client:
        stream = client.chat.completions.stream(model="home", messages=HELLO)
        async with stream as events:
            texts = [event.delta async for event in events if event.type == "content.delta"]
            final = await events.get_final_completion()
        assert "".join(texts) == final.choices[0].message.content == "Hello there."
        node.worker.script = ['{"lamp": "kitchen",', ' "on": true}']
        parsed = await client.chat.completions.parse(
            model="home", messages=HELLO, response_format=Lamp
        )
        assert parsed.choices[0].message.parsed == Lamp(lamp="kitchen", on=True)
        answer = await client.responses.parse(model="home", input="Hi.", text_format=Lamp)
        assert answer.output_parsed == Lamp(lamp="kitchen", on=True)
    calls = [await node.worker.calls.get() for _ in range(3)]
    schemas = [call.request.options.constraint.json_schema for call in calls]
    assert schemas[0] == ""
    assert all('"lamp"' in schema for schema in schemas[1:])


async def test_the_package_calls_tools_and_sends_their_results_back(node):
    node.worker.script = list(CALL)
    async with node.client() as client:
        asked = {"model": "home", "messages": HELLO, "tools": [TOOL]}
        whole = await client.chat.completions.create(**asked)
        choice = whole.choices[0]
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
        (call,) = choice.message.tool_calls
        assert call.function.name == "switch"
        assert Lamp.model_validate_json(call.function.arguments) == Lamp(lamp="kitchen", on=True)
        async with client.chat.completions.stream(**asked) as events:
            final = await events.get_final_completion()
        assert final.choices[0].finish_reason == "tool_calls"
        assert final.choices[0].message.tool_calls[0].function.name == "switch"
        node.worker.script = ["Done", "."]
        messages = [
            *HELLO,
            choice.message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "ok"},
        ]
        answer = await client.chat.completions.create(
            model="home", messages=messages, tools=[TOOL], tool_choice="auto"
        )
        assert answer.choices[0].message.content == "Done."
    while not node.worker.calls.empty():
        last = await node.worker.calls.get()
    sent = last.request.input.conversation
    assert [message.role for message in sent.messages] == ["user", "assistant", "tool"]
    assert sent.messages[1].tool_calls[0].name == "switch"
    assert sent.tools.tools[0].name == "switch"


async def test_a_response_calls_tools_in_a_stream_and_whole(node):
    node.worker.script = list(CALL)
    flat = {"type": "function", **TOOL["function"]}
    async with node.client() as client:
        whole = await client.responses.create(model="home", input="Hi.", tools=[flat])
        (call,) = whole.output
        assert (call.type, call.name, whole.status) == ("function_call", "switch", "completed")
        async with client.responses.stream(model="home", input="Hi.", tools=[flat]) as stream:
            types = [event.type async for event in stream]
            final = await stream.get_final_response()
        assert "response.function_call_arguments.done" in types
        assert final.output[0].arguments == call.arguments
        node.worker.script = ["Done."]
        answer = await client.responses.create(
            model="home",
            tools=[flat],
            input=[
                {"role": "user", "content": "Hi."},
                call.model_dump(exclude_none=True, include={*call.model_fields_set}),
                {"type": "function_call_output", "call_id": call.call_id, "output": "ok"},
            ],
        )
    assert answer.output_text == "Done."


async def test_the_package_retries_what_may_be_retried(node):
    """It reads Retry-After; a node that is busy once is asked again."""
    node.worker.failure = QueueFullError("the queue is full", retry_after_s=0.1)

    async def recover():
        await node.worker.calls.get()
        node.worker.failure = None

    async with node.client(max_retries=2) as client:
        recovering = asyncio.create_task(recover())
        answer = await client.chat.completions.create(model=BASE, messages=HELLO)
        await recovering
    assert answer.choices[0].message.content == "Hello there."


async def test_the_synchronous_client_lists_and_gets_errors(node):
    def ask():
        with openai.OpenAI(api_key=node.key, base_url=node.url, max_retries=0) as client:
            names = [model.id for model in client.models.list()]
            with pytest.raises(openai.AuthenticationError):
                client.with_options(api_key="wrong").models.list()
            return names

    assert await asyncio.to_thread(ask) == [BASE, "auto", "home"]


async def test_langchain_chats_streams_and_binds_tools(node):
    model = ChatOpenAI(model="home", api_key=node.key, base_url=node.url, max_retries=0)
    said = [SystemMessage("Be brief."), HumanMessage("Hi.")]
    answer = await model.ainvoke(said)
    assert answer.content == "Hello there."
    assert answer.usage_metadata["total_tokens"] == 10
    pieces = [piece.content async for piece in model.astream(said)]
    assert "".join(pieces) == "Hello there."
    node.worker.script = list(CALL)
    called = await model.bind_tools([TOOL]).ainvoke(said)
    assert called.tool_calls[0]["args"] == {"lamp": "kitchen", "on": True}
    node.worker.script = ['{"lamp": "hall", "on": false}']
    parsed = await model.with_structured_output(Lamp, method="json_schema").ainvoke(said)
    assert parsed == Lamp(lamp="hall", on=False)


async def test_llm_chats_through_its_own_list_of_models(node, tmp_path):
    (tmp_path / "extra-openai-models.yaml").write_text(
        yaml.safe_dump(
            [
                {
                    "model_id": "house",
                    "model_name": "home",
                    "api_base": node.url,
                    "api_key_name": "edgelora",
                }
            ]
        )
    )
    (tmp_path / "keys.json").write_text(json.dumps({"edgelora": node.key}))
    # No plugins: one of those that may be installed needs a library of its own.
    environ = {**os.environ, "LLM_USER_PATH": str(tmp_path), "LLM_LOAD_PLUGINS": ""}

    async def llm(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            LLM,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environ,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    assert (await llm("-m", "house", "Hi.")).strip() == "Hello there."
    assert (await llm("-m", "house", "--no-stream", "Hi.")).strip() == "Hello there."
    call = await node.worker.calls.get()
    assert call.ticket.adapters[0].digest == node.digest
