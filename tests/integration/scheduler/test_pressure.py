"""A real scheduler process while its device heats up, fills up and drains."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from edgelora.errors import AdapterNotFoundError, ResourcePressureError
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.degradation_pb2 import DegradationPreference, DegradationStep
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.channel import translate_errors
from services.chassis.claims import open_ticket
from services.chassis.sealing import boot_clock_s
from tests.support.standin_monitor import StandinMonitor, host_monitor
from tests.support.standin_store import StandinStore, host_store

pytestmark = pytest.mark.integration

BIG, SMALL, CUT = ("sha256:" + letter * 64 for letter in "b5c")
EMAIL = AdapterSelection(adapter="email", strength=0.5)
HOME = AdapterSelection(adapter="home")
BATCH = PriorityClass.PRIORITY_CLASS_BATCH
BACKGROUND = PriorityClass.PRIORITY_CLASS_BACKGROUND
RANK_CUT = DegradationStep.DEGRADATION_STEP_RANK_CUT
ADAPTER_OFF = DegradationStep.DEGRADATION_STEP_ADAPTER_OFF
SHORTER_OUTPUT = DegradationStep.DEGRADATION_STEP_SHORTER_OUTPUT
CAUTIOUS = dict.fromkeys(("TEMPERATURE_UNKNOWN", "MEMORY_UNKNOWN", "BATTERY_UNKNOWN"), "cautious")


@pytest.fixture
async def device(bench) -> AsyncIterator[StandinMonitor]:
    """A calm device; a store with an adapter of rank 64 and one of rank 8; a worker."""
    monitor = StandinMonitor()
    await bench.serve(host_monitor(monitor, bench.address("monitor")))
    store = StandinStore(bench.sealer)
    store.digests = {("acme", "email"): BIG, ("acme", "home"): SMALL, ("acme", SMALL): SMALL}
    store.ranks = {BIG: 64, SMALL: 8, CUT: 32}
    bench.standin_store = store
    await bench.serve(host_store(store, bench.address("store")))
    await bench.start_worker("w0")
    yield monitor
    monitor.cut()


async def rules(bench, *expected):
    """Waits until exactly these rules hold, and returns their sentences."""
    queues = await bench.wait_for(
        lambda queues: [each.rule for each in queues.restrictions] == list(expected)
    )
    return [each.explanation for each in queues.restrictions]


async def serve(bench, **request):
    """Runs one request to its ticket; returns what the client is told, and the ticket."""
    events = [event async for event in bench.stub.Acquire(bench.request(**request), timeout=30)]
    granted = events[-1].granted
    await bench.release(granted)
    return events[-2].queued, open_ticket(bench.sealer, granted.ticket, boot_clock_s())


async def refusal(bench, **request):
    with pytest.raises(ResourcePressureError) as caught, translate_errors():
        await bench.acquire(**request)
    return caught.value


async def test_heat_switches_the_largest_adapters_off_and_cooling_brings_them_back(bench, device):
    await bench.start(**CAUTIOUS)
    await rules(bench)
    queued, ticket = await serve(bench, adapters=[EMAIL])
    assert not queued.degradations
    assert [adapter.digest for adapter in ticket.adapters] == [BIG]

    device.tell("temperature", "ELEVATED", 47.0, held_s=12.0)
    [said] = await rules(bench, "temperature_elevated")
    assert said == "device at 47 °C for 12 s: adapters above rank 32 are off"
    queued, ticket = await serve(bench, adapters=[EMAIL, HOME])
    assert [adapter.digest for adapter in ticket.adapters] == [SMALL]
    [step] = queued.degradations
    assert (step.step, step.rule, step.reading) == (ADAPTER_OFF, "temperature_elevated", 47.0)
    assert (step.adapter_digest, step.adapter_alias, step.served_digest) == (BIG, "email", "")
    assert step.held.ToMilliseconds() >= 12_000
    assert 'adapter "email" of rank 64 is off, the others answer' in step.explanation

    device.tell("temperature", "NORMAL", 39.0)
    await rules(bench)
    queued, ticket = await serve(bench, adapters=[EMAIL])
    assert not queued.degradations
    assert [adapter.digest for adapter in ticket.adapters] == [BIG]


async def test_a_version_of_lower_rank_goes_before_switching_off(bench, device):
    bench.standin_store.versions = {BIG: [CUT]}
    device.tell("temperature", "ELEVATED", 47.0)
    await bench.start()
    await rules(bench, "temperature_elevated")
    queued, ticket = await serve(bench, adapters=[EMAIL])
    [step] = queued.degradations
    assert (step.step, step.adapter_digest, step.served_digest) == (RANK_CUT, BIG, CUT)
    assert [(each.digest, each.strength) for each in ticket.adapters] == [(CUT, 0.5)]
    device.tell("temperature", "CRITICAL", 61.0)
    await rules(bench, "temperature_critical")
    queued, ticket = await serve(bench, adapters=[EMAIL])
    assert [step.step for step in queued.degradations] == [ADAPTER_OFF]
    assert not ticket.adapters


async def test_the_fallback_answers_and_an_unknown_one_is_named(bench, device):
    device.tell("temperature", "ELEVATED", 47.0)
    await bench.start()
    await rules(bench, "temperature_elevated")
    preference = DegradationPreference(fallback_adapter="home")
    queued, ticket = await serve(bench, adapters=[EMAIL], degradation=preference)
    assert [(each.digest, each.strength) for each in ticket.adapters] == [(SMALL, 0.5)]
    assert queued.degradations[0].served_digest == SMALL
    strange = DegradationPreference(fallback_adapter="nothing")
    with pytest.raises(AdapterNotFoundError) as caught, translate_errors():
        await bench.acquire(adapters=[EMAIL], degradation=strange)
    assert caught.value.field == "degradation.fallback_adapter"
    assert caught.value.message == "you have no such adapter (degradation.fallback_adapter)"


async def test_who_accepts_nothing_less_is_refused_and_told_the_first_step(bench, device):
    device.tell("temperature", "ELEVATED", 47.0)
    device.tell("battery", "ELEVATED", 0.15)
    await bench.start()
    await rules(bench, "temperature_elevated", "battery_elevated")
    preference = DegradationPreference(is_refused=True)
    error = await refusal(bench, adapters=[EMAIL], max_output_tokens=512, degradation=preference)
    assert error.metadata["step"] == "adapter_off"
    assert error.metadata["rule"] == "temperature_elevated"
    assert error.retry_after_s == 10.0
    error = await refusal(bench, adapters=[HOME], max_output_tokens=512, degradation=preference)
    assert error.metadata["step"] == "shorter_output"
    queued, _ = await serve(bench, adapters=[HOME], degradation=preference)
    assert not queued.degradations


async def test_full_memory_takes_nothing_new_and_asks_no_store(bench, device):
    await bench.start(PRESSURE_RETRY_AFTER="7s")
    await rules(bench)
    device.tell("memory", "ELEVATED", 0.82)
    running = await bench.acquire()
    device.tell("memory", "CRITICAL", 0.87, held_s=3.0)
    await rules(bench, "memory_critical")
    error = await refusal(bench, adapters=[EMAIL])
    assert error.message.startswith("memory at 87 % for 3 s: no new requests")
    assert error.metadata["rule"] == "memory_critical"
    assert error.retry_after_s == 7.0
    assert bench.standin_store.num_calls == 0
    await bench.release(running)
    device.tell("memory", "NORMAL", 0.5)
    await rules(bench)
    await serve(bench, adapters=[EMAIL])


async def test_a_low_battery_limits_the_lower_classes_and_long_answers(bench, device):
    device.tell("battery", "ELEVATED", 0.15)
    await bench.start(MAX_RUNNING_PER_WORKER="8", BATTERY_ELEVATED_PLACES="1")
    await rules(bench, "battery_elevated")
    running = await bench.acquire(priority=BACKGROUND)
    waiting, _ = await bench.queue(priority=BATCH)
    queued, ticket = await serve(bench, max_output_tokens=512)
    assert ticket.max_output_tokens == 256
    [step] = queued.degradations
    assert (step.step, step.max_output_tokens) == (SHORTER_OUTPUT, 256)
    queues = await bench.queues()
    assert [queue.num_waiting for queue in queues.queues] == [0, 0, 1]
    await bench.release(running)
    granted = (await waiting.read()).granted
    await bench.release(granted)

    device.tell("battery", "CRITICAL", 0.08)
    await rules(bench, "battery_critical")
    for priority in (BACKGROUND, BATCH):
        error = await refusal(bench, priority=priority)
        assert error.metadata["rule"] == "battery_critical"
    _, ticket = await serve(bench, max_output_tokens=512)
    assert ticket.max_output_tokens == 64


async def test_who_waits_while_the_device_gets_worse_is_told_so(bench, device):
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    await rules(bench)
    running = await bench.acquire()
    waiting, queued = await bench.queue(adapters=[EMAIL], max_output_tokens=512)
    assert not queued.degradations
    device.tell("temperature", "ELEVATED", 47.0)
    device.tell("battery", "ELEVATED", 0.15)
    await rules(bench, "temperature_elevated", "battery_elevated")
    await bench.release(running)
    changed = (await waiting.read()).queued
    assert [step.step for step in changed.degradations] == [ADAPTER_OFF, SHORTER_OUTPUT]
    granted = (await waiting.read()).granted
    ticket = open_ticket(bench.sealer, granted.ticket, boot_clock_s())
    assert (list(ticket.adapters), ticket.max_output_tokens) == ([], 256)


async def test_who_waits_while_memory_fills_up_is_refused_and_leaves_no_lease(bench, device):
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    await rules(bench)
    running = await bench.acquire()
    waiting, _ = await bench.queue()
    device.tell("memory", "CRITICAL", 0.9)
    await rules(bench, "memory_critical")
    await bench.release(running)
    with pytest.raises(ResourcePressureError), translate_errors():
        await waiting.read()
    await bench.wait_for(lambda queues: queues.workers[0].num_running == 0)


async def test_who_waits_while_it_gets_better_keeps_what_was_promised(bench, device):
    device.tell("temperature", "ELEVATED", 47.0)
    await bench.start(MAX_RUNNING_PER_WORKER="1")
    await rules(bench, "temperature_elevated")
    running = await bench.acquire()
    waiting, queued = await bench.queue(adapters=[EMAIL])
    assert len(queued.degradations) == 1
    device.tell("temperature", "NORMAL", 40.0)
    await rules(bench)
    await bench.release(running)
    granted = (await waiting.read()).granted
    assert not open_ticket(bench.sealer, granted.ticket, boot_clock_s()).adapters


async def test_before_the_monitor_speaks_everything_is_unknown(bench):
    await bench.start_worker("w0")
    await bench.start(MAX_RUNNING_PER_WORKER="4", **CAUTIOUS)
    said = await rules(bench, "temperature_unknown", "memory_unknown", "battery_unknown")
    assert said[0].startswith("temperature unknown for ")
    assert said[0].endswith(": 50 % of the requests at once")
    for _ in range(2):
        await bench.acquire()
    await bench.queue()
    queues = await bench.queues()
    assert (queues.queues[0].num_running, queues.queues[0].num_waiting) == (2, 1)


async def test_the_log_names_the_steps_and_no_alias(bench, device):
    device.tell("temperature", "ELEVATED", 47.0)
    await bench.start()
    await rules(bench, "temperature_elevated")
    await serve(bench, adapters=[EMAIL])
    preference = DegradationPreference(is_refused=True)
    await refusal(bench, adapters=[EMAIL], degradation=preference)
    await bench.queues()  # the line of a call may follow its answer
    served, refused = (
        line for line in bench.process.log("rpc_finished") if line["rpc"].endswith("/Acquire")
    )
    [step] = served["degradations"]
    assert (step["step"], step["rule"], step["reading"]) == (
        "adapter_off",
        "temperature_elevated",
        47.0,
    )
    assert refused["refusal"]["step"] == "adapter_off"
    assert "email" not in str((served, refused))
    changes = bench.process.log("restrictions_changed")
    assert changes[-1]["rules"] == ["temperature_elevated"]


async def test_an_encoding_is_served_as_asked_or_its_class_is_not_taken(bench, device):
    bench.standin_store.encoders = {BIG}
    await bench.start_encoder_worker("e0")
    await bench.start(encoders=("e0",), **CAUTIOUS)
    device.tell("temperature", "ELEVATED", 47.0, held_s=12.0)
    await rules(bench, "temperature_elevated")
    queued, ticket = await serve(bench, adapters=[EMAIL], task=Task.TASK_ENCODE)
    assert [adapter.digest for adapter in ticket.adapters] == [BIG]
    assert not queued.degradations
    device.tell("battery", "CRITICAL", 0.08)
    await rules(bench, "temperature_elevated", "battery_critical")
    error = await refusal(bench, task=Task.TASK_ENCODE, priority=BATCH)
    assert error.metadata["rule"] == "battery_critical"
