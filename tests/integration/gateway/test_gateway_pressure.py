"""What a tenant meets while the device heats up, fills up, drains, and loses its monitor.

Real monitor over a fake sysfs tree, real scheduler, real gateway and client; a stand-in worker.
"""

from __future__ import annotations

import asyncio

import pytest

from edgelora.degradation import DegradationPreference
from edgelora.errors import InvalidRequestError, ResourcePressureError
from edgelora.generation import Accepted, Delta, Done, GenerationOptions
from tests.support.pressured_node import BIG, SMALL, PressuredNode

pytestmark = pytest.mark.integration

ALL_UNKNOWN = ("temperature_unknown", "memory_unknown", "battery_unknown")


@pytest.fixture
def node(bench):
    return PressuredNode(bench)


async def ask(node, **request):
    """The Accepted events of one whole answer, and the ticket it ran under."""
    events = [event async for event in node.client.generate("Hi", **request)]
    assert isinstance(events[-1], Done)
    call = node.bench.worker.calls.get_nowait()
    return [event for event in events if isinstance(event, Accepted)], call.ticket


async def refusal(node, **request):
    with pytest.raises(ResourcePressureError) as caught:
        await ask(node, **request)
    return caught.value


async def test_a_hot_device_names_what_is_off_and_a_cool_one_serves_it_again(node):
    await node.start()
    await node.rules()
    [accepted], ticket = await ask(node, adapters="email")
    assert accepted.degradations == ()
    assert [adapter.digest for adapter in ticket.adapters] == [BIG]

    node.set_temperature(47)
    [said] = await node.rules("temperature_elevated")
    assert said.startswith("device at 47 °C for ")
    assert said.endswith(": adapters above rank 32 are off")
    [accepted], ticket = await ask(node, adapters=["email", "home"])
    [step] = accepted.degradations
    assert (step.step, step.rule, step.reading) == ("adapter_off", "temperature_elevated", 47.0)
    assert (step.adapter_digest, step.adapter_alias, step.served_digest) == (BIG, "email", "")
    assert [used.digest for used in accepted.adapters] == [SMALL]
    assert [adapter.digest for adapter in ticket.adapters] == [SMALL]
    [accepted], ticket = await ask(
        node, adapters="email", degradation=DegradationPreference(fallback_adapter="home")
    )
    assert accepted.degradations[0].served_digest == SMALL
    assert [adapter.digest for adapter in ticket.adapters] == [SMALL]
    error = await refusal(
        node, adapters="email", degradation=DegradationPreference(is_refused=True)
    )
    assert error.metadata["step"] == "adapter_off"
    assert error.retry_after_s == 10.0

    node.set_temperature(39)
    await node.rules()
    [accepted], ticket = await ask(node, adapters="email")
    assert accepted.degradations == ()
    assert [adapter.digest for adapter in ticket.adapters] == [BIG]


async def test_a_critical_heat_halves_places_and_workers_and_touches_nobody_who_runs(node):
    await node.start(MAX_RUNNING_PER_WORKER="4")
    await node.rules()
    await node.run_shares(1.0, 1.0, 1.0)
    node.bench.worker.hold_after = 1
    answers = [asyncio.create_task(ask(node, adapters="email")) for _ in range(3)]
    await node.bench.wait_for_queues(lambda queues: queues.queues[0].num_running == 3)
    node.set_temperature(61)
    await node.rules("temperature_critical")
    await node.run_shares(0.5, 0.5, 0.5)
    late = asyncio.create_task(ask(node))
    await node.bench.wait_for_queues(
        lambda queues: (queues.queues[0].num_running, queues.queues[0].num_waiting) == (3, 1)
    )
    node.set_temperature(39)
    await node.rules()
    await node.run_shares(1.0, 1.0, 1.0)
    await node.bench.wait_for_queues(lambda queues: queues.queues[0].num_running == 4)
    node.bench.worker.go_on.set()
    for answer in [*answers, late]:
        [accepted], _ = await answer
        assert accepted.degradations == ()


async def test_a_full_memory_takes_nothing_new_and_says_when_to_come_back(node):
    await node.start()
    node.set_memory(0.9)
    await node.rules("memory_critical")
    error = await refusal(node)
    assert error.code == "RESOURCE_EXHAUSTED"
    assert error.retry_after_s == 10.0
    assert (error.metadata["rule"], error.metadata["reading"]) == ("memory_critical", "0.9")
    node.set_memory(0.5)
    await node.rules()
    await ask(node)


async def test_an_empty_battery_refuses_the_lower_classes_and_shortens_answers(node):
    await node.start()
    node.set_battery(15)
    await node.rules("battery_elevated")
    long = GenerationOptions(max_tokens=512)
    [accepted], ticket = await ask(node, options=long)
    [step] = accepted.degradations
    assert (step.step, step.max_output_tokens, ticket.max_output_tokens) == (
        "shorter_output",
        256,
        256,
    )
    await ask(node, priority="batch")
    node.set_battery(8)
    await node.rules("battery_critical")
    for priority in ("background", "batch"):
        assert (await refusal(node, priority=priority)).metadata["rule"] == "battery_critical"
    _, ticket = await ask(node, options=long)
    assert ticket.max_output_tokens == 64


async def test_a_killed_monitor_leaves_half_of_the_places_until_it_is_back_F06(node):
    await node.start(MAX_RUNNING_PER_WORKER="4")
    node.set_temperature(47)
    await node.rules("temperature_elevated")
    node.monitor.kill()
    said = await node.rules(*ALL_UNKNOWN)
    assert said[0].startswith("temperature unknown for ")
    node.bench.worker.hold_after = 1
    answers = [asyncio.create_task(ask(node)) for _ in range(3)]
    await node.bench.wait_for_queues(
        lambda queues: (queues.queues[0].num_running, queues.queues[0].num_waiting) == (2, 1)
    )
    node.bench.worker.go_on.set()
    await asyncio.gather(*answers)
    await asyncio.to_thread(node.start_monitor)
    await node.rules("temperature_elevated")


async def test_a_hanging_monitor_is_a_silent_one_F07(node):
    await node.start(PRESSURE_SILENCE="1500ms")
    await node.rules()
    node.monitor.pause()
    await node.rules(*ALL_UNKNOWN)
    node.monitor.resume()
    await node.rules()


async def test_who_waits_while_it_gets_worse_is_accepted_anew(node):
    await node.start(MAX_RUNNING_PER_WORKER="1")
    await node.rules()
    worker = node.bench.worker
    worker.hold_after = 1
    running = asyncio.create_task(ask(node))
    await node.bench.wait_for_queues(lambda queues: queues.queues[0].num_running == 1)
    events = node.client.generate("Hi", adapters="email")
    first = await anext(events)
    assert (first.degradations, [used.digest for used in first.adapters]) == ((), [BIG])
    node.set_temperature(47)
    await node.rules("temperature_elevated")
    worker.go_on.set()
    await running
    second = await anext(events)
    assert isinstance(second, Accepted)
    assert [step.step for step in second.degradations] == ["adapter_off"]
    assert second.request_id == first.request_id
    kinds = [type(event) async for event in events]
    assert kinds[0] is Delta
    assert kinds[-1] is Done


@pytest.mark.parametrize(
    "preference",
    [
        DegradationPreference(fallback_adapter="../etc"),
        DegradationPreference(fallback_adapter="auto"),
        DegradationPreference(fallback_adapter="home", is_refused=True),
    ],
)
async def test_a_preference_that_makes_no_sense_is_named(gateway, preference):
    client = await gateway.client()
    with pytest.raises(InvalidRequestError) as caught:
        await anext(client.generate("Hi", degradation=preference))
    assert caught.value.field == "degradation.fallback_adapter"
