"""What a native worker is made of: no torch, little memory, no work when idle."""

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager

import psutil
import pytest

from edgelora.v1 import inference_service_pb2 as pb
from edgelora.v1.inference_service_pb2_grpc import InferenceServiceStub
from services.chassis.base_model import NATIVE_FILE, BaseModel
from services.chassis.channel import open_channel
from services.chassis.sealing import Sealer
from services.inference.backends.native_backend import NativeBackend
from tests.support.adapter_files import AdapterFiles, config_bytes, safetensors_bytes, tensors
from tests.support.adapter_shelf import AdapterShelf, host_shelf
from tests.support.prepared_model import prepared_model
from tests.support.process_memory import memory_mb, processor_s
from tests.support.service_process import ServiceProcess
from tests.support.worker_bench import KEY, make_request, make_ticket, worker_environ

pytestmark = pytest.mark.integration

USUAL = ("MAX_LORAS", "MAX_LORA_RANK", "MAX_NUM_SEQS", "BLOCK_SIZE", "KV_CACHE_SIZE", "THREADS")


@pytest.fixture(scope="module", autouse=True)
def _native_core():
    obstacle = NativeBackend.probe()
    if obstacle is not None:
        pytest.skip(obstacle)


@contextmanager
def worker(directory, *arguments, module="services.inference"):
    """A worker on the real model with every setting as it comes."""
    directory.mkdir(exist_ok=True)
    environ = worker_environ(directory, prepared_model(), BACKEND="native")
    for name in USUAL:
        del environ[f"EDGELORA_INFERENCE_{name}"]
    process = ServiceProcess(module, *arguments, environ=environ, logs=directory)
    try:
        process.wait_until_serving(f"unix:{directory}/worker.sock")
        yield process
    finally:
        process.kill()


@asynccontextmanager
async def stub_of(directory):
    async with open_channel(f"unix:{directory}/worker.sock") as channel:
        yield InferenceServiceStub(channel)


async def generate(stub, prompt, adapters=None, **options):
    """The numbers of prompt and output tokens."""
    ticket = make_ticket(Sealer(KEY), adapters or {})
    async for response in stub.Generate(make_request(ticket, prompt, ignore_eos=True, **options)):
        if response.HasField("finished"):
            usage = response.finished.usage
    return usage.num_prompt_tokens, usage.num_output_tokens


async def test_serving_imports_neither_torch_nor_transformers(tmp_path):
    listing = tmp_path / "modules"
    with worker(tmp_path, str(listing), module="tests.support.listing_worker") as process:
        async with stub_of(tmp_path) as stub:
            assert (await generate(stub, "The weather is", max_tokens=3))[1] == 3
            model = await stub.GetModel(pb.GetModelRequest())
        assert model.backend == "native"
        mapped = {each.path for each in psutil.Process(process.process.pid).memory_maps()}
        assert await asyncio.to_thread(process.stop) == 0
        (chosen,) = process.log("backend_chosen")
    assert (chosen["backend"], chosen["reason"]) == ("native", "it was asked for")
    packages = {name.split(".")[0] for name in listing.read_text().splitlines()}
    assert {"edgelora_native", "tokenizers", "grpc", "numpy"} <= packages
    assert not {"torch", "transformers", "safetensors", "gguf", "peft"} & packages
    assert any("libedgelora_native" in path for path in mapped)
    assert not [path for path in mapped if "torch" in path]


async def test_eight_long_streams_with_eight_adapters_fit_into_450_mb(tmp_path):
    model = BaseModel.load(prepared_model())
    modules = tuple(model.targets)
    shelf = AdapterShelf(Sealer(KEY))
    config = config_bytes(r=16, target_modules=list(modules))
    for seed in range(8):
        named = tensors(
            modules,
            rank=16,
            seed=seed,
            targets=model.targets,
            num_layers=model.num_layers,
            scale=0.05,
        )
        shelf.add(AdapterFiles(config, safetensors_bytes(named)))
    digests = list(shelf.files)
    async with host_shelf(shelf, f"unix:{tmp_path}/store.sock").serving():
        with worker(tmp_path) as process:
            async with stub_of(tmp_path) as stub:
                used = await asyncio.gather(
                    *(
                        # Prompts that differ from the start share no KV block.
                        generate(stub, f"{n} and " * 334, {digest: 1.0}, max_tokens=22)
                        for n, digest in enumerate(digests)
                    )
                )
                status = await stub.GetEngineStatus(pb.GetEngineStatusRequest())
            assert sum(map(sum, used)) >= 8 * 1024, used
            assert status.num_resident_adapters == 8
            assert memory_mb(psutil.Process(process.process.pid), "Rss") < 450


def test_a_second_worker_on_the_model_shares_its_weights(tmp_path):
    with worker(tmp_path / "one") as one:
        first = psutil.Process(one.process.pid)
        alone = memory_mb(first, "Pss")
        with worker(tmp_path / "two") as two:
            second = psutil.Process(two.process.pid)
            both = memory_mb(first, "Pss") + memory_mb(second, "Pss")
    assert both - alone < 120
    assert (prepared_model() / NATIVE_FILE).stat().st_size > 90 * 10**6  # what is shared


async def test_an_idle_worker_uses_hardly_any_processor_time(tmp_path):
    with worker(tmp_path) as process:
        async with stub_of(tmp_path) as stub:
            await generate(stub, "The weather is", max_tokens=3)
        running = psutil.Process(process.process.pid)
        before, began = processor_s(running), time.monotonic()
        await asyncio.sleep(3.0)  # the span that is looked at
        share = (processor_s(running) - before) / (time.monotonic() - began)
    assert 0 < share < 0.05


def test_a_packed_file_that_is_not_the_prepared_one_is_refused(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for file in prepared_model().iterdir():
        if file.name != NATIVE_FILE:
            (model / file.name).symlink_to(file)
    packed = bytearray((prepared_model() / NATIVE_FILE).read_bytes())
    packed[len(packed) // 2] ^= 1
    (model / NATIVE_FILE).write_bytes(packed)
    environ = worker_environ(
        tmp_path, model, BACKEND="native", BLOCK_SIZE="16", KV_CACHE_SIZE="4MiB"
    )
    process = ServiceProcess("services.inference", environ=environ, logs=tmp_path)
    assert process.process.wait(60) == 2
    errors = process.errors().strip()
    assert "is not what was prepared" in errors
    assert len(errors.splitlines()) == 1
