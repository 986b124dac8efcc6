"""`edgelora chat` and `status` on a device under pressure."""

from __future__ import annotations

import json

import pytest

from edgelora.v1.scheduler_service_pb2 import GetQueuesResponse

pytestmark = pytest.mark.integration

BIG, SMALL = ("sha256:" + letter * 64 for letter in "b5")


@pytest.fixture
async def hot(command):
    """Nothing tells the temperature, and the operator takes that for an elevated one."""
    gateway = command.gateway
    gateway.store.digests = {("acme", "email"): BIG, ("acme", "home"): SMALL}
    gateway.store.ranks = {BIG: 64, SMALL: 8}
    gateway.scheduler.kill()
    gateway.start_scheduler(TEMPERATURE_UNKNOWN="elevated")

    def is_hot(queues: GetQueuesResponse) -> bool:
        return bool(queues.restrictions) and queues.workers[0].is_ready

    await gateway.wait_for_queues(is_hot)
    await command.until_ready("scheduler")
    return command


async def test_chat_says_in_a_plain_line_what_is_off(hot):
    assert await hot("chat", "-m", "Hi", "-a", "email") == "Hello there.\n"
    assert 'adapter "email" of rank 64 is off, the base model answers)' in hot.err
    assert hot.err.startswith("(temperature unknown for ")
    await hot("chat", "-m", "Hi", "-a", "email", "--fallback", "home")
    assert 'is off, adapter "home" answers)' in hot.err
    document = await hot.json("chat", "-m", "Hi", "-a", "email")
    [step] = document["degradations"]
    assert (step["step"], step["rule"], step["reading"]) == (
        "adapter_off",
        "temperature_unknown",
        None,
    )
    await hot("chat", "-m", "Hi", "-a", "home")
    assert hot.err == ""


async def test_chat_asks_in_the_class_that_is_given(command):
    gateway = command.gateway
    gateway.scheduler.kill()
    gateway.start_scheduler(BATTERY_UNKNOWN="critical")
    await gateway.wait_for_queues(lambda queues: bool(queues.restrictions))
    await command.until_ready("scheduler")
    await command("chat", "-m", "Hi", "--priority", "batch", status=1)
    assert "battery unknown for " in command.err
    assert "no new background and batch requests: try again in 10 s" in command.err


async def test_chat_can_refuse_anything_less(hot):
    await hot("chat", "-m", "Hi", "-a", "email", "--no-degraded", status=1)
    assert "adapters[0] is off" in hot.err
    assert "try again in 10 s" in hot.err
    await hot("chat", "-m", "Hi", "--no-degraded", "--fallback", "home", status=2)
    assert "--fallback goes with no --no-degraded" in hot.err


async def test_status_shows_what_is_limited(hot):
    lines = (await hot("status", status=1)).splitlines()
    [limited] = [line for line in lines if line.startswith("limited")]
    assert limited.startswith("limited   temperature unknown for ")
    assert limited.endswith(": adapters above rank 32 are off")
    [restriction] = json.loads(await hot("status", "--json", status=1))["restrictions"]
    assert restriction["rule"] == "temperature_unknown"
    assert "reading" not in restriction
