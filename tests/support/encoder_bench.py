"""A whole encoder worker over a real unix socket, beside a stand-in store, and adapters for it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from edgelora.adapter_format import EncoderAdapter, adapter_digest, read_encoder_adapter
from edgelora.v1 import encoder_service_pb2 as pb
from edgelora.v1.encoder_service_pb2_grpc import EncoderServiceStub
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.sealing import Sealer
from services.inference.encoder.backend import EncoderBackend
from services.inference.encoder.config import EncoderConfig
from services.inference.encoder.engine import EncoderEngine
from services.inference.encoder.worker import serving
from services.inference.serving_worker import Worker
from tests.support.adapter_files import AdapterFiles, safetensors_bytes
from tests.support.adapter_shelf import AdapterShelf, host_shelf
from tests.support.tiny_encoder import (
    HIDDEN,
    LAYERS,
    TARGETS,
    encoder_config,
    encoder_tensors,
    head_bytes,
)
from tests.support.worker_bench import KEY, WORKER, make_ticket


def labels_of(seed: int, count: int) -> list[str]:
    """Labels no other seed has."""
    return [f"intent-{seed}-{number}" for number in range(count)]


def classifier(seed: int, *, num_labels: int = 5, rank: int = 4, **head: Any) -> AdapterFiles:
    """A classifier with factors; another seed is another adapter with other labels."""
    tensors = encoder_tensors(seed=seed, rank=rank, num_labels=num_labels)
    return AdapterFiles(
        encoder_config(r=rank),
        safetensors_bytes(tensors),
        head=head_bytes(labels_of(seed, num_labels), **head),
    )


def linear_probe(seed: int, *, num_labels: int = 5, **head: Any) -> AdapterFiles:
    """A classifier on the base model as it is."""
    tensors = encoder_tensors((), seed=seed, num_labels=num_labels)
    return AdapterFiles(
        encoder_config(()),
        safetensors_bytes(tensors),
        head=head_bytes(labels_of(seed, num_labels), **head),
    )


def embedder(seed: int, **changes: Any) -> AdapterFiles:
    """An adapter without a classifier."""
    config = encoder_config(task_type="FEATURE_EXTRACTION", modules_to_save=None, **changes)
    return AdapterFiles(config, safetensors_bytes(encoder_tensors(seed=seed)))


def read_files(files: AdapterFiles) -> EncoderAdapter:
    """The adapter in files, for the tiny encoder."""
    return read_encoder_adapter(
        files.config,
        files.weights,
        files.head or None,
        targets=TARGETS,
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        max_rank=64,
    )


def put(shelf: AdapterShelf, files: AdapterFiles) -> str:
    """Registers files at the stand-in store; returns their digest."""
    adapter = read_files(files)
    digest = adapter_digest(adapter.config, files.weights, adapter.head_settings)
    return shelf.add(files, digest)


def encoder_environ(directory: Path, model: Path, **settings: str) -> dict[str, str]:
    """The variables of a worker whose socket, key and store lie in a directory."""
    key_file = directory / "seal.key"
    key_file.write_bytes(KEY)
    values = {
        "ADDRESS": f"unix:{directory}/encoder.sock",
        "NAME": WORKER,
        "MODEL_DIRECTORY": str(model),
        "STORE_ADDRESS": f"unix:{directory}/store.sock",
        "SEAL_KEY_FILE": str(key_file),
        "MAX_LORAS": "4",
        "MAX_LORA_RANK": "16",
        "MAX_STEP_TOKENS": "128",
        "NUM_THREADS": "1",
    }
    return {f"EDGELORA_ENCODER_{name}": value for name, value in (values | settings).items()}


class EncoderCaller:
    """Calls of an encoder worker with tickets of one's own."""

    def __init__(self, channel: grpc.aio.Channel, sealer: Sealer | None = None) -> None:
        self.stub: Any = EncoderServiceStub(channel)
        self.sealer = sealer or Sealer(KEY)

    def ticket(self, adapters: Mapping[str, float] = {}, **changes: Any) -> Sealed:
        """A ticket as the scheduler seals it; `adapters` are strengths by digest."""
        return make_ticket(self.sealer, adapters, **{"task": Task.TASK_ENCODE} | changes)

    async def classify(
        self,
        texts: Sequence[str],
        digest: str,
        *,
        strength: float = 1.0,
        top_labels: int = 1,
        **changes: Any,
    ) -> Any:
        """The whole response."""
        return await self.stub.Classify(
            pb.EncoderServiceClassifyRequest(
                ticket=self.ticket({digest: strength}, **changes),
                texts=texts,
                top_labels=top_labels,
            )
        )

    async def embed(
        self, texts: Sequence[str], adapters: Mapping[str, float] = {}, **changes: Any
    ) -> np.ndarray:
        """The vectors, [texts, hidden_size]."""
        response = await self.stub.Embed(
            pb.EncoderServiceEmbedRequest(ticket=self.ticket(adapters, **changes), texts=texts)
        )
        return np.array([each.values for each in response.embeddings], dtype=np.float32)

    async def status(self) -> Any:
        """The engine's counts."""
        return await self.stub.GetEncoderStatus(pb.GetEncoderStatusRequest())


class EncoderBench(EncoderCaller):
    """What a test needs of a running worker."""

    def __init__(
        self,
        worker: Worker[EncoderEngine],
        backend: Any,
        shelf: AdapterShelf,
        channel: grpc.aio.Channel,
    ) -> None:
        super().__init__(channel)
        self.worker = worker
        self.engine = worker.engine
        self.backend = backend
        self.shelf = shelf

    def put(self, files: AdapterFiles) -> str:
        """Registers files at the store; returns their digest."""
        return put(self.shelf, files)

    async def rest(self) -> None:
        """Waits until nothing is held any more."""
        while self.engine.num_open_requests or any(
            slot.num_references for slot in self.engine.status.slots
        ):
            await self.status()


@asynccontextmanager
async def encoder_bench(
    backend: EncoderBackend, model: Path, *, is_shared: bool = False, **settings: str
) -> AsyncIterator[EncoderBench]:
    """Starts store and worker, and stops them."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        blobs = directory / "blobs"
        blobs.mkdir()
        if is_shared:
            settings["SHARED_BLOB_DIRECTORY"] = str(blobs)
        config = EncoderConfig.from_env(encoder_environ(directory, model, **settings))
        shelf = AdapterShelf(Sealer(KEY), blobs if is_shared else None)
        host = host_shelf(shelf, config.store_address)
        options = [("grpc.default_authority", "localhost")]
        async with (
            host.serving(),
            serving(config, backend) as worker,
            grpc.aio.insecure_channel(config.address, options=options) as channel,
        ):
            yield EncoderBench(worker, backend, shelf, channel)
