"""A whole node of real processes and the real model, behind a gateway in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from edgelora.v1 import inference_service_pb2 as inference_pb
from edgelora.v1.inference_service_pb2_grpc import InferenceServiceStub
from services.chassis.base_model import BaseModel
from services.chassis.channel import open_channel
from tests.support.adapter_files import AdapterFiles, config_bytes, safetensors_bytes, tensors
from tests.support.gateway_bench import GatewayBench, gateway_bench
from tests.support.prepared_model import prepared_model
from tests.support.service_process import ServiceProcess
from tests.support.worker_bench import worker_environ

CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"


class NodeBench:
    """Starts every service but the monitor."""

    def __init__(self, bench: GatewayBench) -> None:
        self.gateway = bench
        self.inference: ServiceProcess

    async def start(self, **scheduler: str) -> None:
        """Everything, with these settings of the scheduler."""
        self.start_store()
        await self.start_inference()
        await asyncio.to_thread(self.gateway.start_scheduler, **scheduler)
        await self.gateway.start_gateway(HEALTH_INTERVAL="200ms")

    def start_store(self) -> None:
        directory = self.gateway.directory
        environ = {
            "ADDRESS": self.gateway.address("store"),
            "DIRECTORY": str(directory / "store"),
            "MODEL_DIRECTORY": str(prepared_model()),
            "SEAL_KEY_FILE": str(directory / "seal.key"),
        }
        process = ServiceProcess(
            "services.adapter_store",
            environ={f"EDGELORA_STORE_{name}": value for name, value in environ.items()},
            logs=directory,
        )
        self.gateway.ends_with(process)
        process.wait_until_serving(self.gateway.address("store"))

    async def start_inference(self) -> None:
        """A new worker on the real model."""
        environ = worker_environ(
            self.gateway.directory,
            prepared_model(),
            ADDRESS=self.gateway.address("inference"),
            MAX_LORAS="4",
            MAX_NUM_SEQS="8",
            BLOCK_SIZE="16",
            KV_CACHE_SIZE="96MiB",
            SHARED_BLOB_DIRECTORY=str(self.gateway.directory / "store" / "blobs"),
        )
        self.inference = ServiceProcess(
            "services.inference", environ=environ, logs=self.gateway.directory
        )
        self.gateway.ends_with(self.inference)
        await asyncio.to_thread(
            self.inference.wait_until_serving, self.gateway.address("inference")
        )

    async def engine(self) -> inference_pb.GetEngineStatusResponse:
        """What the engine holds and does."""
        async with open_channel(self.gateway.address("inference")) as channel:
            stub = InferenceServiceStub(channel)
            return await stub.GetEngineStatus(inference_pb.GetEngineStatusRequest(), timeout=10)

    async def wait_until_idle(self) -> None:
        """Returns when neither scheduler nor engine holds anything of a request."""
        await self.gateway.wait_for_queues(
            lambda queues: not any(q.num_waiting or q.num_running for q in queues.queues)
        )
        while True:
            engine = await self.engine()
            if not (engine.num_running or engine.num_waiting or engine.num_adapter_references):
                return

    def adapter(self, seed: int, **config: object) -> Path:
        """The directory of a random adapter that changes what the model says."""
        model = BaseModel.load(prepared_model())
        named = tensors(seed=seed, targets=model.targets, num_layers=model.num_layers, scale=0.15)
        return self.save(f"a{seed}", AdapterFiles(config_bytes(**config), safetensors_bytes(named)))

    def save(self, name: str, files: AdapterFiles) -> Path:
        """Writes both files into a directory of their own."""
        directory = self.gateway.directory / "uploads" / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / CONFIG_FILE).write_bytes(files.config)
        (directory / WEIGHTS_FILE).write_bytes(files.weights)
        return directory


@asynccontextmanager
async def node_bench() -> AsyncIterator[NodeBench]:
    """A running node."""
    async with gateway_bench() as bench:
        node = NodeBench(bench)
        await node.start()
        yield node
