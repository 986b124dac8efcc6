"""Workers as real processes: crashes, restarts, orderly ends."""

import asyncio
import dataclasses
import signal

import grpc
import pytest

from edgelora.errors import InternalError, from_rpc_error
from edgelora.v1 import inference_service_pb2 as pb
from edgelora.v1.inference_service_pb2_grpc import InferenceServiceStub
from services.chassis.base_model import FILE_NAME, FLOAT32_FILE, NATIVE_FILE, BaseModel
from services.chassis.channel import open_channel
from services.chassis.sealing import Sealer
from tests.support.prepared_model import prepared_model
from tests.support.service_process import ServiceProcess
from tests.support.worker_bench import (
    KEY,
    make_request,
    make_ticket,
    save_stand_in_model,
    worker_environ,
)

pytestmark = pytest.mark.integration


def request(**options):
    return make_request(make_ticket(Sealer(KEY)), "The weather is", ignore_eos=True, **options)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("w")


def start(place, module="services.inference", **settings):
    model = settings.pop("model", None) or prepared_model()
    environ = worker_environ(
        place, model, **{"KV_CACHE_SIZE": "48MiB", "BLOCK_SIZE": "16"} | settings
    )
    process = ServiceProcess(module, environ=environ, logs=place)
    process.wait_until_serving(f"unix:{place}/worker.sock")
    return process


@pytest.fixture(scope="module")
def worker(place):
    """A worker on the real model; a test that ends it puts a new one into the list."""
    running = [start(place)]
    yield running
    running[0].kill()


async def read_to_end(call, begun=None):
    """Every response, and the error that cut the stream; sets `begun` at the first response."""
    responses = []
    try:
        async for response in call:
            responses.append(response)
            if begun is not None:
                begun.set()
    except grpc.aio.AioRpcError as error:
        return responses, error
    return responses, None


async def test_a_killed_worker_cuts_its_streams_and_its_successor_serves_F04(worker, place):
    async with open_channel(f"unix:{place}/worker.sock") as channel:
        stub = InferenceServiceStub(channel)
        call = stub.Generate(request(max_tokens=1500))
        begun = asyncio.Event()
        reading = asyncio.create_task(read_to_end(call, begun))
        await begun.wait()
        worker[0].process.send_signal(signal.SIGKILL)
        async with asyncio.timeout(5):
            responses, error = await reading
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert not any(response.HasField("finished") for response in responses)
        worker[0].process.wait()
        worker[0] = await asyncio.to_thread(start, place)
        responses, error = await read_to_end(stub.Generate(request(max_tokens=3)))
        assert error is None
        assert responses[-1].HasField("finished")


async def test_one_log_line_an_rpc_and_no_word_of_the_user_or_the_model(worker, place):
    async with open_channel(f"unix:{place}/worker.sock") as channel:
        stub = InferenceServiceStub(channel)
        responses, _ = await read_to_end(stub.Generate(request(max_tokens=5)))
    text = "".join(response.delta.text for response in responses)
    lines = [line for line in worker[0].log("rpc_finished") if line["rpc"].endswith("/Generate")]
    newest = lines[-1]
    assert newest["tenant_id"] == "tenant"
    assert newest["num_output_tokens"] == 5
    assert {"ttft_ms", "engine_queue_ms", "adapter_load_ms", "adapters"} <= newest.keys()
    log = (place / "services.inference.out").read_text() + worker[0].errors()
    assert "weather" not in log
    assert text.strip() not in log


async def test_a_stopped_worker_ends_what_it_has_begun(worker, place):
    async with open_channel(f"unix:{place}/worker.sock") as channel:
        stub = InferenceServiceStub(channel)
        call = stub.Generate(request(max_tokens=30))
        begun = asyncio.Event()
        reading = asyncio.create_task(read_to_end(call, begun))
        await begun.wait()
        assert await asyncio.to_thread(worker[0].stop) == 0
        responses, error = await reading
    assert error is None
    assert responses[-1].finished.usage.num_output_tokens == 30
    worker[0] = await asyncio.to_thread(start, place)


async def test_an_engine_that_dies_takes_its_process_along_S09(tmp_path):
    save_stand_in_model(tmp_path)
    process = start(tmp_path, "tests.support.dying_worker", model=tmp_path, KV_CACHE_SIZE="256KiB")
    async with open_channel(f"unix:{tmp_path}/worker.sock") as channel:
        call = InferenceServiceStub(channel).Generate(request(max_tokens=50))
        responses, error = await read_to_end(call)
    assert isinstance(from_rpc_error(error), InternalError)
    assert not any(response.HasField("finished") for response in responses)
    assert await asyncio.to_thread(process.process.wait, 20) == 70
    assert process.log("engine_died")[0]["error"] == "SystemExit"


async def test_torch_serves_a_model_without_a_packed_file_and_the_log_says_why(tmp_path):
    pytest.importorskip("torch")
    model = tmp_path / "model"
    model.mkdir()
    for file in prepared_model().iterdir():
        if file.name not in (NATIVE_FILE, FILE_NAME):
            (model / file.name).symlink_to(file)
    description = BaseModel.load(prepared_model())
    files = {FLOAT32_FILE: description.files[FLOAT32_FILE]}
    dataclasses.replace(description, files=files).save(model)
    process = await asyncio.to_thread(start, tmp_path, model=model)
    async with open_channel(f"unix:{tmp_path}/worker.sock") as channel:
        stub = InferenceServiceStub(channel)
        responses, error = await read_to_end(stub.Generate(request(max_tokens=3)))
        assert error is None
        assert responses[-1].finished.usage.num_output_tokens == 3
        assert (await stub.GetModel(pb.GetModelRequest())).backend == "torch"
    (chosen,) = process.log("backend_chosen")
    assert chosen["backend"] == "torch"
    assert "native can not serve" in chosen["reason"]
    assert await asyncio.to_thread(process.stop) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"MAX_LORAS": "many"}, "EDGELORA_INFERENCE_MAX_LORAS"),
        ({"MODEL_DIRECTORY": "/nowhere"}, "/nowhere"),
        ({"KV_CACHE_SIZE": "1KiB"}, "KV_CACHE_SIZE is too small"),
        ({"BACKEND": "native", "BLOCK_SIZE": "4"}, "BLOCK_SIZE must be 16"),
    ],
)
def test_wrong_settings_are_one_clear_line_and_status_2(tmp_path, changes, message):
    environ = worker_environ(tmp_path, prepared_model(), **{"BLOCK_SIZE": "16"} | changes)
    process = ServiceProcess("services.inference", environ=environ, logs=tmp_path)
    assert process.process.wait(60) == 2
    errors = process.errors().strip()
    assert message in errors
    assert len(errors.splitlines()) == 1
