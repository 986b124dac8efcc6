"""The encoder worker as a real process beside a real adapter store."""

import asyncio
import random
import signal

import grpc
import pytest

from edgelora.errors import (
    AdapterNotFoundError,
    PermissionDeniedError,
    TicketExpiredError,
    UnauthenticatedError,
    from_rpc_error,
)
from edgelora.v1 import encoder_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterState
from edgelora.v1.encoding_pb2 import Task
from services.chassis.channel import open_channel
from services.chassis.sealing import Sealer, boot_clock_s
from tests.integration.adapter_store.store_process import SEAL_KEY, StoreClient, StoreProcess
from tests.support.encoder_bench import (
    EncoderCaller,
    classifier,
    encoder_environ,
    labels_of,
    linear_probe,
)
from tests.support.service_process import ServiceProcess
from tests.support.tiny_encoder import WORDS

pytestmark = pytest.mark.integration

TENANTS = ("acme", "beta", "gamma")
NUM_ADAPTERS = 8


@pytest.fixture(scope="module")
def store(tmp_path_factory, tiny):
    process = StoreProcess(tmp_path_factory.mktemp("s"), ENCODER_MODEL_DIRECTORY=str(tiny))
    asyncio.run(process.start())
    yield process
    process.close()


@pytest.fixture(scope="module")
def digests(store):
    """Of the adapters, number n of tenant n % 3."""

    async def register():
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            return [
                (
                    await client.register(
                        TENANTS[seed % 3],
                        (classifier if seed % 4 else linear_probe)(seed, num_labels=3 + seed),
                    )
                ).adapter.digest
                for seed in range(NUM_ADAPTERS)
            ]

    return asyncio.run(register())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("w")


@pytest.fixture(scope="module")
def start(place, store, tiny):
    """Starts a worker; the one before has ended."""

    def start():
        environ = encoder_environ(
            place,
            tiny,
            MAX_LORAS="8",
            STORE_ADDRESS=store.address,
            SHARED_BLOB_DIRECTORY=str(store.directory / "blobs"),
        )
        (place / "seal.key").write_bytes(SEAL_KEY)
        process = ServiceProcess("services.inference.encoder", environ=environ, logs=place)
        process.wait_until_serving(f"unix:{place}/encoder.sock")
        return process

    return start


@pytest.fixture(scope="module")
def worker(start):
    """A test that ends it puts a new one into the list."""
    running = [start()]
    yield running
    running[0].kill()


@pytest.fixture
async def caller(worker, place):
    async with open_channel(f"unix:{place}/encoder.sock") as channel:
        yield EncoderCaller(channel, Sealer(SEAL_KEY))


def answers(response):
    return [
        {each.label: each.probability for each in found.labels}
        for found in response.classifications
    ]


async def test_8_adapters_of_several_tenants_at_once_each_answer_as_alone(
    caller, digests, worker, store
):
    rng = random.Random(3)
    jobs = [
        (
            seed,
            [" ".join(rng.choices(WORDS, k=rng.randint(1, 15))) for _ in range(rng.randint(1, 4))],
        )
        for seed in [*range(NUM_ADAPTERS), *(rng.randrange(NUM_ADAPTERS) for _ in range(40))]
    ]

    def call(seed, texts):
        return caller.classify(texts, digests[seed], top_labels=99, tenant_id=TENANTS[seed % 3])

    together = await asyncio.gather(*[call(*job) for job in jobs])
    is_native = worker[0].log("backend_chosen")[0]["backend"] == "native"
    for (seed, texts), response in zip(jobs, together, strict=True):
        for text, found in zip(texts, answers(response), strict=True):
            assert set(found) == set(labels_of(seed, 3 + seed))
            (alone,) = answers(await call(seed, [text]))
            assert found == (alone if is_native else pytest.approx(alone, abs=1e-5))
    assert (await caller.status()).num_resident_adapters == NUM_ADAPTERS
    async with open_channel(store.address) as channel:
        client = StoreClient(channel)
        while (await client.get("acme", digests[0])).state != AdapterState.ADAPTER_STATE_RESIDENT:
            await caller.status()


async def test_a_killed_worker_ends_its_calls_and_its_successor_answers_the_same(
    worker, start, caller, digests
):
    before = answers(
        await caller.classify(["play some song"], digests[1], top_labels=9, tenant_id="beta")
    )
    calls = [
        asyncio.ensure_future(
            caller.classify(["play some song " * 20] * 64, digests[1], tenant_id="beta")
        )
        for _ in range(20)
    ]
    num_texts = (await caller.status()).num_texts
    while (await caller.status()).num_texts == num_texts:
        assert not any(call.done() for call in calls)
    worker[0].process.send_signal(signal.SIGKILL)
    async with asyncio.timeout(5):
        ends = await asyncio.gather(*calls, return_exceptions=True)
    errors = [end for end in ends if isinstance(end, grpc.aio.AioRpcError)]
    assert errors
    assert {error.code() for error in errors} == {grpc.StatusCode.UNAVAILABLE}
    worker[0].process.wait()
    worker[0] = await asyncio.to_thread(start)
    after = answers(
        await caller.classify(["play some song"], digests[1], top_labels=9, tenant_id="beta")
    )
    assert after[0] == pytest.approx(before[0], abs=1e-6)


async def test_bad_tickets_are_refused(caller, digests):
    good = {"adapters": {digests[0]: 1.0}}
    forged = EncoderCaller.ticket(caller, {digests[0]: 1.0})
    forged.payload += b"\0"
    for ticket, error in (
        (forged, UnauthenticatedError),
        (caller.ticket(good["adapters"], worker="else"), PermissionDeniedError),
        (caller.ticket(good["adapters"], task=Task.TASK_GENERATE), PermissionDeniedError),
        (caller.ticket(good["adapters"], expires_at_boot_s=boot_clock_s()), TicketExpiredError),
        (caller.ticket({"sha256:" + "a" * 64: 1.0}), AdapterNotFoundError),
    ):
        request = pb.EncoderServiceClassifyRequest(ticket=ticket, texts=["tell me"], top_labels=1)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await caller.stub.Classify(request)
        assert type(from_rpc_error(caught.value)) is error


async def test_one_log_line_an_rpc_and_no_word_of_the_user(caller, digests, worker, place):
    await caller.classify(["kitchen light off"], digests[2], tenant_id="gamma")
    newest = worker[0].log("rpc_finished")[-1]
    assert newest["rpc"].endswith("/Classify")
    assert newest["tenant_id"] == "gamma"
    assert newest["num_tokens"] == 5
    assert {"engine_queue_ms", "adapter_load_ms", "engine_ms", "adapters"} <= newest.keys()
    log = worker[0].output() + worker[0].errors()
    assert "kitchen" not in log
    assert labels_of(2, 5)[0] not in log


async def test_a_stopped_worker_ends_what_it_has_begun(caller, digests, worker):
    num_texts = (await caller.status()).num_texts
    call = asyncio.ensure_future(
        caller.classify(["play some song " * 20] * 64, digests[1], tenant_id="beta")
    )
    while (await caller.status()).num_texts == num_texts:
        assert not call.done()
    assert await asyncio.to_thread(worker[0].stop) == 0
    assert len((await call).classifications) == 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"MAX_LORAS": "many", "MAX_STEP_TOKENS": "1"}, "EDGELORA_ENCODER_MAX_LORAS"),
        ({"MAX_STEP_TOKENS": "32"}, "EDGELORA_ENCODER_MAX_STEP_TOKENS must be at least 64"),
    ],
)
def test_wrong_settings_are_clear_lines_and_status_2(tmp_path, tiny, changes, message):
    environ = encoder_environ(tmp_path, tiny, **changes)
    process = ServiceProcess("services.inference.encoder", environ=environ, logs=tmp_path)
    assert process.process.wait(60) == 2
    errors = process.errors().strip()
    assert message in errors
    assert len(errors.splitlines()) == len(changes)
