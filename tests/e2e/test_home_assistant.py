"""A real Home Assistant with its own Ollama integration, where `make home-assistant` was run.

Its release pins a client that sends no key, so that a proxy adds one (docs/http.md).
"""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.gateway_bench import gateway_bench
from tests.support.home_assistant import key_proxy, require_home_assistant, visit
from tests.support.ollama_node import ollama_node
from tests.support.up_process import up_process

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CALL = [
    "<tool_call>\n",
    '{"name": "HassTurnOn", "arguments": {"name": "Kitchen Light"}}',
    "\n</tool_call>",
]


@pytest.fixture
async def node():
    """A real gateway and scheduler; the worker says what the test has written."""
    require_home_assistant()
    async with gateway_bench() as bench:
        node = await ollama_node(bench)
        proxy = key_proxy(bench.directory / "proxy", bench.http_port, bench.keys["acme"])
        try:
            node.url = f"http://127.0.0.1:{proxy.port}"
            yield node
        finally:
            proxy.stop()


async def test_the_model_switches_the_light(node, tmp_path):
    node.worker.next_scripts = [CALL, ["The light ", "is on."], ["You are welcome."]]
    told = await asyncio.to_thread(
        visit,
        tmp_path / "config",
        node.url,
        "home:latest",
        ["Switch on the kitchen light, please.", "Thank you."],
        controls_home=True,
    )
    assert told.offered == ["auto:latest", "home:latest", "stand-in:latest"]
    assert (told.title, told.state) == ("home", "loaded")
    first, second = told.turns
    assert (first.speech, first.is_light_on) == ("The light is on.", True)
    assert second.speech == "You are welcome."
    calls = [node.worker.calls.get_nowait() for _ in range(3)]
    assert {adapter.digest for call in calls for adapter in call.ticket.adapters} == {node.digest}
    asked, answered, thanked = (call.request.input.conversation for call in calls)
    assert "HassTurnOn" in {tool.name for tool in asked.tools.tools}
    assert [message.role for message in answered.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert (
        json.loads(answered.messages[-1].content)["data"]["success"][0]["name"] == "Kitchen Light"
    )
    assert [message.content for message in thanked.messages[-2:]] == [
        "The light is on.",
        "Thank you.",
    ]


async def test_a_model_that_is_not_listed_is_pulled_and_used(node, tmp_path):
    told = await asyncio.to_thread(
        visit, tmp_path / "config", node.url, "stand-in:home", ["Hello?"], controls_home=False
    )
    assert (told.title, told.state) == ("stand-in:home", "loaded")
    assert [turn.speech for turn in told.turns] == ["Hello there."]
    (call,) = [node.worker.calls.get_nowait()]
    assert [adapter.digest for adapter in call.ticket.adapters] == [node.digest]


def test_a_model_answers_on_a_running_stack(tmp_path):
    require_home_assistant()
    with up_process(tmp_path, "--port", "0") as up:
        up.start().wait_until_serving()
        port = int(up.state["http_address"].rpartition(":")[2])
        up.run("tenants", "add", "house")
        key = (up.home / "keys" / "house.key").read_text().strip()
        proxy = key_proxy(tmp_path / "proxy", port, key)
        try:
            told = visit(
                tmp_path / "config",
                f"http://127.0.0.1:{proxy.port}",
                "smollm2-135m-instruct:latest",
                ["What is a lamp for?"],
                controls_home=True,
            )
        finally:
            proxy.stop()
        assert told.offered == ["auto:latest", "smollm2-135m-instruct:latest"]
        (turn,) = told.turns
        # What so small a model makes of it is its own: it has spoken, or it has called a tool.
        assert turn.type == "action_done"
        assert turn.speech
        assert up.stop() == 0
        assert up.leftovers() == []
