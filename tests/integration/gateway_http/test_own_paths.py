"""Strengths of running generations, kept conversations, and the document of the paths."""

import json

import pytest

from services.gateway.http.openapi.document import api_document
from tests.support.openai_node import chat_body, events_of

pytestmark = pytest.mark.integration


async def test_the_strength_of_a_running_stream_changes_and_is_the_callers_alone(node):
    await node.bench.client("other")
    node.worker.hold_after = 1
    async with (
        node.http() as http,
        http.stream("POST", "/chat/completions", json=chat_body(model="home", stream=True)) as held,
    ):
        request_id = held.headers["x-request-id"]
        path = f"/generations/{request_id}/strength"
        changed = await http.post(path, json={"strength": 0.25})
        assert changed.json() == {
            "id": request_id,
            "adapters": [{"digest": node.digest, "weight": 0.25}],
        }
        for name in ("home", node.digest):
            answer = await http.post(path, json={"adapter": name, "strength": 2})
            assert answer.json()["adapters"][0]["weight"] == 2.0
        for body, param in (
            ({}, "strength"),
            ({"strength": "1"}, "strength"),
            ({"strength": 2.5}, "strength"),
            ({"strength": -1}, "strength"),
            ({"strength": 1, "adapter": "a b"}, "adapter"),
            ({"strength": 1, "else": 1}, None),
        ):
            answer = await http.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), body
        key = node.bench.keys["other"]
        foreign = await http.post(
            path, json={"strength": 1}, headers={"authorization": f"Bearer {key}"}
        )
        node.worker.go_on.set()
        await held.aread()
        unknown = await http.post("/generations/nobody/strength", json={"strength": 1})
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.content == unknown.content
    assert events_of(held.text)[-1] == "[DONE]"


async def test_conversations_are_forgotten_on_request(node):
    async with node.http() as http:
        answer = await http.post("/chat/completions", json=chat_body(session="kitchen"))
        assert answer.status_code == 200
        assert "forgotten" in (await http.delete("/sessions/kitchen")).json()
        assert "forgotten" in (await http.delete("/sessions/nobody")).json()
        assert "forgotten" in (await http.delete("/sessions")).json()
        assert "forgotten" in (await http.delete("/sessions/house%2Fkitchen")).json()
        assert (await http.delete("/sessions/")).status_code == 404
        answer = await http.delete(f"/sessions/{'s' * 65}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "session")


async def test_the_document_is_for_everybody(node):
    wire = node.wire()
    answer = await wire.call("GET", "/openapi.json")
    await wire.close()
    assert json.loads(answer.body) == api_document()
