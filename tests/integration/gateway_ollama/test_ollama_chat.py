"""Answers, asked for with the `ollama` client."""

from __future__ import annotations

import asyncio
import json

import ollama
import pytest

from edgelora.errors import QueueFullError, WorkerLostError
from edgelora.v1.generation_pb2 import PriorityClass
from tests.support.ollama_node import BASE

pytestmark = pytest.mark.integration

QUESTION = [{"role": "user", "content": "Say hello."}]
NUMBERS = ("total_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count")


async def test_a_whole_answer_has_its_numbers(node, client):
    answer = await client.chat("home", QUESTION)
    assert answer.message.role == "assistant"
    assert answer.message.content == "Hello there."
    assert (answer.model, answer.done, answer.done_reason) == ("home", True, "stop")
    assert (answer.prompt_eval_count, answer.eval_count) == (7, 3)
    assert answer.total_duration >= answer.prompt_eval_duration + answer.eval_duration > 0
    call = node.worker.calls.get_nowait()
    assert [adapter.digest for adapter in call.ticket.adapters] == [node.digest]


async def test_a_stream_ends_with_the_only_line_that_is_done(client):
    lines = [line async for line in await client.chat("home", QUESTION, stream=True)]
    assert "".join(line.message.content for line in lines) == "Hello there."
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1].done_reason == "stop"
    assert all(getattr(lines[-1], name) is not None for name in NUMBERS)
    assert all(getattr(line, name) is None for line in lines[:-1] for name in NUMBERS)


async def test_a_prompt_is_rendered_as_a_conversation_and_a_raw_one_is_not(node, client):
    answer = await client.generate("home", "Say hello.", system="Be short.")
    assert (answer.response, answer.done_reason) == ("Hello there.", "stop")
    messages = node.worker.calls.get_nowait().request.input.conversation.messages
    assert [(message.role, message.content) for message in messages] == [
        ("system", "Be short."),
        ("user", "Say hello."),
    ]
    lines = [line async for line in await client.generate(BASE, "Once", raw=True, stream=True)]
    assert "".join(line.response for line in lines) == "Hello there."
    assert node.worker.calls.get_nowait().request.input.prompt == "Once"


async def test_options_reach_the_worker(node, client):
    await client.chat(
        "home",
        QUESTION,
        options={
            "temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "seed": 42,
            "repeat_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": -0.5,
            "num_predict": 9, "stop": ["\n"], "num_ctx": 131072.0, "num_gpu": 99, "tfs_z": 1,
        },
        keep_alive="-1.0s",
        think=False,
    )  # fmt: skip
    options = node.worker.calls.get_nowait().request.options
    sampling = options.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.7, 40, 0.9)
    assert (sampling.min_p, sampling.seed, sampling.repetition_penalty) == (0.05, 42, 1.1)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.5, -0.5)
    assert (options.stop.max_tokens, list(options.stop.stop_strings)) == (9, ["\n"])


@pytest.mark.parametrize("num_predict", [-1, -2, 0, 10**9])
async def test_an_answer_without_a_limit_ends_with_the_context(node, client, num_predict):
    await client.chat(
        "home", QUESTION, options={"num_predict": num_predict, "top_k": 0, "seed": -1}
    )
    options = node.worker.calls.get_nowait().request.options
    assert options.stop.max_tokens == 2048
    assert not options.sampling.HasField("top_k")
    assert not options.sampling.HasField("seed")


async def test_the_extensions_are_those_of_the_other_api(node):
    wire = node.wire()
    body = {
        "model": f"{BASE}:latest",
        "messages": QUESTION,
        "stream": False,
        "adapters": [{"id": "home:latest", "weight": 0.5}],
        "priority": "batch",
        "session": "kitchen",
    }
    answer = await wire.call("POST", "/api/chat", json.dumps(body).encode())
    assert json.loads(answer.body)["edgelora"]["adapters"][0]["weight"] == 0.5
    call = node.worker.calls.get_nowait()
    assert [adapter.strength for adapter in call.ticket.adapters] == [0.5]
    assert call.ticket.priority == PriorityClass.PRIORITY_CLASS_BATCH
    body = {"model": "home", "messages": QUESTION, "stream": False, "adapter_strength": 0.25}
    await wire.call("POST", "/api/chat", json.dumps(body).encode())
    assert [each.strength for each in node.worker.calls.get_nowait().ticket.adapters] == [0.25]
    await wire.close()


@pytest.mark.parametrize("model", ["home", f"{BASE}:home", BASE, "auto"])
async def test_without_a_question_a_model_is_only_loaded(node, client, model):
    assert (await client.generate(model)).done_reason == "load"
    assert (await client.chat(model, [])).done_reason == "load"
    freed = await client.generate(model, keep_alive=0)
    assert (freed.done_reason, freed.response) == ("unload", "")
    assert node.worker.calls.empty()


async def test_a_format_bounds_the_answer(node, client):
    schema = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
    node.worker.script = ['{"room"', ': "hall"}']
    answer = await client.chat("home", QUESTION, format=schema)
    assert json.loads(answer.message.content) == {"room": "hall"}
    constraint = node.worker.calls.get_nowait().request.options.constraint
    assert json.loads(constraint.json_schema) == schema
    await client.generate("home", "Say hello.", format="json")
    assert node.worker.calls.get_nowait().request.options.constraint.json_object


@pytest.mark.parametrize(
    ("path", "more", "field"),
    [
        ("chat", {"format": "yaml"}, "format"),
        ("chat", {"format": 1}, "format"),
        ("chat", {"think": True}, "think"),
        ("chat", {"think": "high"}, "think"),
        ("chat", {"stream": "true"}, "stream"),
        ("chat", {"keep_alive": "soon"}, "keep_alive"),
        ("chat", {"keep_alive": []}, "keep_alive"),
        ("chat", {"logprobs": True}, "logprobs"),
        ("chat", {"chat_template": "{% for i in range(99999) %}{% endfor %}"}, "chat_template"),
        ("chat", {"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs"),
        ("chat", {"options": {"temperature": "hot"}}, "options.temperature"),
        ("chat", {"options": {"temperature": 99}}, "options.temperature"),
        ("chat", {"options": {"num_predict": 1.5}}, "options.num_predict"),
        ("chat", {"options": {"num_predict": "5"}}, "options.num_predict"),
        ("chat", {"options": {"num_ctx": "big"}}, "options.num_ctx"),
        ("chat", {"options": {"stop": "x"}}, "options.stop"),
        ("chat", {"options": {"stop": [""]}}, "options.stop[0]"),
        ("chat", {"options": {"repeat_penalty": 0}}, "options.repeat_penalty"),
        ("chat", {"messages": "hi"}, "messages"),
        ("chat", {"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
        ("chat", {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            "chat",
            {"messages": [{"role": "user", "content": "hi", "images": ["aGk="]}]},
            "messages[0].images",
        ),
        ("chat", {"tools": [{"type": "function"}]}, "tools[0].function"),
        ("chat", {"priority": "now"}, "priority"),
        ("chat", {"model": "  "}, "model"),
        ("chat", {"model": 5}, "model"),
        ("generate", {"prompt": "   "}, "prompt"),
        ("generate", {"prompt": "a\0b"}, "prompt"),
        ("generate", {"prompt": "hi", "system": "x", "raw": True}, "system"),
        ("generate", {"prompt": "hi", "template": "{{ .Prompt }}"}, "template"),
        ("generate", {"prompt": "hi", "context": [1, 2, 3]}, "context"),
        ("generate", {"prompt": "hi", "suffix": "x"}, "suffix"),
        ("generate", {"prompt": "hi", "images": ["aGk="]}, "images"),
    ],
)
async def test_a_wrong_field_is_named_and_not_repeated(node, path, more, field):
    """P03, P04, P05, P07, P08, X07."""
    wire = node.wire()
    body = {"model": "home", "messages": QUESTION, **more}
    answer = await wire.call("POST", f"/api/{path}", json.dumps(body).encode())
    assert answer.status == 400, answer.body
    message = json.loads(answer.body)["error"]
    assert message.startswith(f"{field} ")
    assert "{%" not in message
    assert node.worker.calls.empty()
    await wire.close()


async def test_an_unknown_model_is_not_found_before_anything_is_sent(client):
    for model in ("nobody", "llama3.2:1b", f"{BASE}:nobody", "sha256:" + "0" * 64):
        with pytest.raises(ollama.ResponseError) as refused:
            await client.chat(model, QUESTION)
        assert refused.value.status_code == 404
        with pytest.raises(ollama.ResponseError) as refused:
            _ = [line async for line in await client.chat(model, QUESTION, stream=True)]
        assert refused.value.status_code == 404


async def test_a_busy_node_says_when_to_come_back(node):
    node.worker.failure = QueueFullError("the queue is full: wait", retry_after_s=3.2)
    wire = node.wire()
    body = json.dumps({"model": "home", "messages": QUESTION}).encode()
    answer = await wire.call("POST", "/api/chat", body)
    assert (answer.status, answer.headers["retry-after"]) == (429, "4")
    await wire.close()


@pytest.mark.parametrize("path", ["chat", "generate"])
async def test_a_stream_that_is_cut_says_so_and_is_never_done(node, path):
    """S09."""
    node.worker.ends_without_finished = True
    wire = node.wire()
    body = {"model": "home", "messages": QUESTION, "prompt": "hi"}
    answer = await wire.call("POST", f"/api/{path}", json.dumps(body).encode())
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert list(lines[-1]) == ["error"]
    assert not any(line.get("done") for line in lines)
    whole = await wire.call("POST", f"/api/{path}", json.dumps({**body, "stream": False}).encode())
    assert whole.status == 503
    assert WorkerLostError.code == "UNAVAILABLE"
    await wire.close()


async def test_who_leaves_frees_the_worker(node):
    """S10, S12."""
    node.worker.hold_after = 1
    wire = node.wire()
    body = json.dumps({"model": "home", "messages": QUESTION}).encode()
    for is_whole in (False, True):
        wanted = json.dumps({**json.loads(body), "stream": not is_whole}).encode()
        await wire.send(wire.request_bytes("POST", "/api/chat", wanted))
        call = await node.worker.calls.get()
        if not is_whole:
            await wire.read_head()
            await wire.read_chunk()
        wire.reset()
        await asyncio.wait_for(call.ended.wait(), 10)
    await node.bench.wait_until_idle()


async def test_a_history_as_clients_keep_it_is_taken(node, client):
    call = {"function": {"name": "lights", "arguments": {"room": "hall"}}}
    await client.chat(
        "home",
        [
            {"role": "system", "content": "Be short."},
            {"role": "tool", "content": "left of a trimmed history"},
            {"role": "user", "content": "Light, please."},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "content": '{"on": true}', "tool_name": "lights"},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "Thanks."},
        ],
    )
    messages = node.worker.calls.get_nowait().request.input.conversation.messages
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool", "user"]
    assert json.loads(messages[2].tool_calls[0].arguments_json) == {"room": "hall"}
    wire = node.wire()
    wrong = {
        "model": "home",
        "messages": [{"role": "assistant", "content": ""}, {"role": "system"}],
    }
    answer = await wire.call("POST", "/api/chat", json.dumps(wrong).encode())
    assert json.loads(answer.body)["error"].startswith("messages[1].content ")
    await wire.close()


async def test_tools_are_called(node, client):
    tool = {
        "type": "function",
        "function": {
            "name": "lights",
            "description": "Switches lights.",
            "parameters": {"type": "object", "properties": {"room": {"type": "string"}}},
        },
    }
    node.worker.script = [
        "<tool_call>\n",
        '{"name": "lights", ',
        '"arguments": {"room": "hall"}}',
        "\n</tool_call>",
    ]
    answer = await client.chat("home", QUESTION, tools=[tool])
    (called,) = answer.message.tool_calls
    assert (called.function.name, called.function.arguments) == ("lights", {"room": "hall"})
    assert (answer.message.content, answer.done_reason) == ("", "stop")
    offered = node.worker.calls.get_nowait().request.input.conversation.tools
    assert [each.name for each in offered.tools] == ["lights"]
    lines = [line async for line in await client.chat("home", QUESTION, tools=[tool], stream=True)]
    assert [len(line.message.tool_calls or ()) for line in lines] == [1, 0]
    assert "<tool_call>" not in "".join(line.message.content for line in lines)
