"""Generations and encodings wait for places of their own."""

import pytest

from edgelora.errors import InvalidRequestError, NotFoundError
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.channel import translate_errors
from services.chassis.claims import open_ticket
from services.chassis.sealing import boot_clock_s
from tests.support.standin_store import StandinStore, host_store

pytestmark = pytest.mark.integration

GENERATE, ENCODE = Task.TASK_GENERATE, Task.TASK_ENCODE


async def refused(bench, error, match, **request):
    with pytest.raises(error, match=match), translate_errors():
        await bench.acquire(**request)


async def test_neither_task_waits_for_the_other(bench):
    await bench.start_worker("w0")
    await bench.start_encoder_worker("e0")
    await bench.start(encoders=("e0",), MAX_RUNNING_PER_WORKER="1", MAX_RUNNING_PER_ENCODER="1")
    held = await bench.acquire()
    waiting_generation, _ = await bench.queue(task=GENERATE)
    encoding = await bench.acquire(task=ENCODE)
    ticket = open_ticket(bench.sealer, encoding.ticket, boot_clock_s())
    assert (ticket.worker, ticket.task) == ("e0", ENCODE)
    assert encoding.worker_address == bench.address("e0")

    waiting_encoding, _ = await bench.queue(task=ENCODE)
    queues = await bench.queues()
    interactive = queues.queues[0]
    assert interactive.priority == PriorityClass.PRIORITY_CLASS_INTERACTIVE
    assert (interactive.num_waiting, interactive.num_running) == (2, 2)
    assert [(each.name, each.task, each.num_running) for each in queues.workers] == [
        ("w0", GENERATE, 1),
        ("e0", ENCODE, 1),
    ]

    await bench.release(held)  # a place of a generation, which is no place for an encoding
    granted = (await waiting_generation.read()).granted
    ticket = open_ticket(bench.sealer, granted.ticket, boot_clock_s())
    assert (ticket.worker, ticket.task) == ("w0", GENERATE)
    await bench.release(encoding)
    assert (await waiting_encoding.read()).HasField("granted")


async def test_a_task_without_workers_is_refused_at_once(bench):
    await bench.start_encoder_worker("e0")
    await bench.start(workers=(), encoders=("e0",))
    await refused(bench, NotFoundError, "generates no text: start it with a decoder")
    await bench.acquire(task=ENCODE)


async def test_no_encoder_says_how_to_get_one(bench):
    await bench.start_worker("w0")
    await bench.start()
    await refused(bench, NotFoundError, "edgelora up --encoder", task=ENCODE)
    await refused(bench, InvalidRequestError, "task must be generate or encode", task=7)


async def test_the_store_is_told_the_task_and_only_generations_are_routed(bench):
    store = StandinStore(bench.sealer)
    store.digests["acme", "intents"] = digest = "sha256:" + "c" * 64
    store.encoders.add(digest)
    await bench.serve(host_store(store, bench.address("store")))
    await bench.start_encoder_worker("e0")
    await bench.start(workers=(), encoders=("e0",))
    await bench.acquire(task=ENCODE, adapters=[AdapterSelection(adapter="intents")])
    assert store.tasks == [ENCODE]
    auto = [AdapterSelection(adapter="auto")]
    await refused(
        bench,
        InvalidRequestError,
        "only generations are routed",
        task=ENCODE,
        adapters=auto,
        routing_text="which?",
    )
