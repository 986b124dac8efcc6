"""What a real scheduler shows of waits, refusals by rule, degradations and leases."""

import asyncio

import pytest

from edgelora.errors import DeadlineExceededError, QueueFullError, ResourcePressureError
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.degradation_pb2 import DegradationPreference
from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.channel import translate_errors
from tests.support.free_port import free_port
from tests.support.prometheus import samples, scrape
from tests.support.standin_monitor import StandinMonitor, host_monitor
from tests.support.standin_store import StandinStore, host_store

pytestmark = pytest.mark.integration

BIG = "sha256:" + "b" * 64
EMAIL = AdapterSelection(adapter="email")


@pytest.fixture
async def shown(bench):
    """Starts the scheduler on demand; called again, it tells what is shown."""
    address = f"127.0.0.1:{free_port()}"

    async def read(**settings):
        if settings:
            await bench.start(METRICS_ADDRESS=address, **settings)
        return samples(await asyncio.to_thread(scrape, address))

    return read


async def refused(bench, error, **request):
    with pytest.raises(error), translate_errors():
        await bench.acquire(**request)


async def test_grants_waits_and_places(bench, shown):
    await bench.start_worker("w0")
    values = await shown(LEASE="60s")
    assert values['edgelora_worker_places{worker="w0"}'] == 2
    granted = await bench.acquire()
    values = await shown()
    assert values['edgelora_queue_running{priority="interactive",task="generate"}'] == 1
    assert values['edgelora_queue_running{priority="batch",task="generate"}'] == 0
    assert values['edgelora_worker_leases{worker="w0"}'] == 1
    assert values['edgelora_worker_ready{worker="w0"}'] == 1
    assert (
        values['edgelora_acquisitions_total{end="granted",priority="interactive",task="generate"}']
        == 1
    )
    assert values['edgelora_queue_wait_seconds_count{priority="interactive",task="generate"}'] == 1
    await bench.release(granted)
    assert (await shown())['edgelora_worker_leases{worker="w0"}'] == 0


async def test_refusals_by_reason_and_callers_that_leave(bench, shown):
    await shown(NO_WORKER_LIMIT="1h", MAX_WAITING_PER_TENANT="1")
    call = bench.stub.Acquire(bench.request())
    await call.read()
    assert (await shown())['edgelora_queue_waiting{priority="interactive",task="generate"}'] == 1
    await refused(bench, QueueFullError)
    call.cancel()
    left = 'edgelora_acquisitions_total{end="left",priority="interactive",task="generate"}'
    while left not in (values := await shown()):
        pass
    assert (
        values[
            'edgelora_acquisitions_total{end="queue_full",priority="interactive",task="generate"}'
        ]
        == 1
    )
    assert values['edgelora_queue_waiting{priority="interactive",task="generate"}'] == 0
    remaining = bench.request(tenant_id="b")
    remaining.remaining.FromMilliseconds(50)
    with pytest.raises(DeadlineExceededError), translate_errors():
        async for _ in bench.stub.Acquire(remaining):
            pass
    late = '{end="deadline_exceeded",priority="interactive",task="generate"}'
    assert (await shown())[f"edgelora_acquisitions_total{late}"] == 1


async def test_rules_in_force_refusals_and_degradations_by_rule(bench, shown):
    monitor = StandinMonitor()
    await bench.serve(host_monitor(monitor, bench.address("monitor")))
    store = StandinStore(bench.sealer)
    store.digests, store.ranks = {("acme", "email"): BIG}, {BIG: 64}
    await bench.serve(host_store(store, bench.address("store")))
    await bench.start_worker("w0")
    monitor.tell("temperature", "ELEVATED", 47.0)
    monitor.tell("battery", "CRITICAL", 0.05)
    values = await shown(LEASE="60s")
    active = 'edgelora_restriction_active{rule="%s"}'
    while active % "battery_critical" not in values:
        values = await shown()
    assert values[active % "temperature_elevated"] == 1
    level = 'edgelora_scheduler_pressure_level{dimension="battery",level="%s"}'
    assert [values[level % each] for each in ("critical", "normal", "unknown")] == [1, 0, 0]
    async for _ in bench.stub.Acquire(bench.request(adapters=[EMAIL]), timeout=30):
        pass
    batch = PriorityClass.PRIORITY_CLASS_BATCH
    await refused(bench, ResourcePressureError, priority=batch)
    strict = DegradationPreference(is_refused=True)
    await refused(bench, ResourcePressureError, adapters=[EMAIL], degradation=strict)
    values = await shown()
    off = 'edgelora_degradations_total{rule="temperature_elevated",step="adapter_off"}'
    assert values[off] == 1
    name = 'edgelora_pressure_refusals_total{rule="%s",step="%s"}'
    assert values[name % ("battery_critical", "refusal")] == 1
    assert values[name % ("temperature_elevated", "adapter_off")] == 1
    monitor.cut()


async def test_leases_that_run_out_are_counted(bench, shown):
    await bench.start_worker("w0")
    await shown(LEASE="100ms")
    await bench.acquire()
    while (values := await shown())["edgelora_leases_expired_total"] == 0:
        pass
    assert values["edgelora_leases_expired_total"] == 1
    assert values['edgelora_worker_leases{worker="w0"}'] == 0
