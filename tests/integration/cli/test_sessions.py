"""`edgelora chat --session`, `edgelora sessions` and `edgelora strength`, from the arguments on."""

from __future__ import annotations

import pytest

from edgelora.generation import Accepted, Delta

pytestmark = pytest.mark.integration

DIGEST = "sha256:" + "a" * 64


async def test_a_conversation_has_a_name_until_it_is_forgotten(command):
    said = await command("chat", "-m", "Hi", "--session", "kitchen", "--show-id")
    assert said == "Hello there.\n"
    call = command.gateway.worker.calls.get_nowait()
    assert call.request.session == "kitchen"
    assert f"(request {call.ticket.request_id})" in command.err
    assert await command("sessions", "forget", "kitchen") == "forgot 2 conversations\n"
    assert await command.json("sessions", "forget") == {"num_forgotten": 2}
    assert [request.session for request in command.gateway.worker.sessions] == ["kitchen", ""]
    assert await command("sessions", "forget", "x" * 65, status=1) == ""
    assert "session may have at most 64 characters" in command.err


async def test_a_running_answer_gets_another_strength(command):
    gateway = command.gateway
    gateway.store.digests["acme", "mail"] = DIGEST
    gateway.worker.hold_after = 1
    client = await gateway.client()
    events = client.generate("Dear Ann,", adapters="mail")
    async for event in events:
        if isinstance(event, Accepted):
            request_id = event.request_id
        if isinstance(event, Delta):
            break
    changed = await command("strength", request_id, "0.25", "--adapter", "mail")
    assert changed == f"{DIGEST}  0.25\n"
    document = await command.json("strength", request_id, "2")
    assert document == {"adapters": {DIGEST: 2.0}}
    await command("strength", request_id, "2.5", status=2)
    await command("strength", request_id, "1", "--adapter", "else", status=1)
    assert "adapter must name one of the adapters of the generation" in command.err
    await events.aclose()
    await gateway.wait_until_idle()
    await command("strength", request_id, "1", status=1)
    assert "no such generation is running" in command.err
