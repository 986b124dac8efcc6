"""The adapter store as a real process, and a client that speaks to it as gateway and worker do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1 import adapter_store_service_pb2_grpc as rpc
from edgelora.v1.adapter_pb2 import AdapterSelection, ResolvedAdapter
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.ticket_pb2 import Sealed, Ticket, WarmUpPermit
from services.chassis.base_model import BaseModel
from services.chassis.channel import open_channel, translate_errors
from services.chassis.claims import seal_claim, seal_ticket
from services.chassis.sealing import Sealer, boot_clock_s
from tests.support.adapter_files import AdapterFiles
from tests.support.redis_server import RedisServer
from tests.support.tiny_base import tiny_base

SEAL_KEY = b"k" * 32
CHUNK_BYTES = 512


class StoreProcess:
    """Starts, stops and kills one store over its own directory."""

    def __init__(self, root: Path, redis: RedisServer | None = None, **settings: str) -> None:
        self.root = root
        self.directory = root / "store"
        self._model = root / "model"
        self._model.mkdir(exist_ok=True)
        tiny_base().save(self._model)
        self._key_file = root / "seal.key"
        self._key_file.write_bytes(SEAL_KEY)
        # A unix socket's path is short, a test's directory is not.
        self._run_dir = tempfile.TemporaryDirectory(prefix="edgelora-")
        self.address = f"unix:{self._run_dir.name}/store.sock"
        self._redis = redis
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self.log = root / "store.log"

    def use_base(self, base: BaseModel) -> None:
        """Changes the base model for the next start."""
        base.save(self._model)

    def environment(self) -> dict[str, str]:
        """The settings the process gets, and no other EDGELORA variable."""
        own = {
            "ADDRESS": self.address,
            "DIRECTORY": str(self.directory),
            "MODEL_DIRECTORY": str(self._model),
            "SEAL_KEY_FILE": str(self._key_file),
            **self.settings,
        }
        if self._redis is not None:
            own["REDIS_URL"] = self._redis.url
            own["REDIS_PASSWORD_FILE"] = str(self._redis.password_file)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("EDGELORA_")}
        return inherited | {f"EDGELORA_STORE_{name}": value for name, value in own.items()}

    async def start(self) -> None:
        """Starts the process and waits until it is ready."""
        self.process = self._launch()
        async with open_channel(self.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest()
            for _ in range(600):
                try:
                    answer = await health.Check(request, timeout=1)
                except grpc.aio.AioRpcError:
                    answer = None
                if answer is not None and answer.status == answer.SERVING:
                    return
                assert self.process.poll() is None, self.log.read_text()
                await asyncio.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def _launch(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "services.adapter_store"],
                env=self.environment(),
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """Ends the process without a chance to clean up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Asks the process to end; returns its exit status."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)

    def close(self) -> None:
        """Leaves no process and no directory."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self._run_dir.cleanup()

    def has_socket(self) -> bool:
        """Whether the socket is there."""
        return Path(self.address.removeprefix("unix:")).exists()

    def blobs(self) -> list[Path]:
        """Files in the blob directory."""
        return sorted((self.directory / "blobs").iterdir())

    def staged(self) -> list[Path]:
        """Whatever lies in the staging directory."""
        return sorted((self.directory / "staging").iterdir())


class StoreClient:
    """Calls the store under a tenant's claim. Errors come back as our own classes."""

    def __init__(self, channel: grpc.aio.Channel, sealer: Sealer | None = None) -> None:
        self.stub = rpc.AdapterStoreServiceStub(channel)
        self.sealer = sealer or Sealer(SEAL_KEY)

    def claim(self, tenant_id: str, life_s: float = 60.0) -> Sealed:
        """A claim as the gateway makes it."""
        return seal_claim(
            self.sealer,
            tenant_id=tenant_id,
            request_id="r",
            expires_at_boot_s=boot_clock_s() + life_s,
        )

    def ticket(self, tenant_id: str, *digests: str, life_s: float = 60.0) -> Sealed:
        """A ticket as the scheduler makes it."""
        return seal_ticket(
            self.sealer,
            Ticket(
                ticket_id="t",
                tenant_id=tenant_id,
                worker="w",
                adapters=[ResolvedAdapter(digest=digest, strength=1.0) for digest in digests],
                expires_at_boot_s=boot_clock_s() + life_s,
            ),
        )

    def permit(self, tenant_id: str, digest: str, life_s: float = 60.0) -> Sealed:
        """A warm-up permit as the store makes it."""
        return self.sealer.seal(
            WarmUpPermit(
                tenant_id=tenant_id,
                digest=digest,
                worker="w",
                expires_at_boot_s=boot_clock_s() + life_s,
            )
        )

    def header(self, tenant_id: str, files: AdapterFiles, **fields) -> pb.StoreUploadHeader:
        """The first message of an upload."""
        values = {
            "claim": self.claim(tenant_id),
            "config_size_bytes": len(files.config),
            "weights_size_bytes": len(files.weights),
            "card_size_bytes": len(files.card),
            "head_size_bytes": len(files.head),
        }
        return pb.StoreUploadHeader(**(values | fields))

    async def register(self, tenant_id: str, files: AdapterFiles, **fields):
        """Uploads the files."""
        return await self.send(messages(self.header(tenant_id, files, **fields), files))

    async def send(self, parts: Iterable | AsyncIterator):
        """Sends upload messages as they are."""
        with translate_errors():
            return await self.stub.RegisterAdapter(parts, timeout=60)

    async def resolve(
        self,
        tenant_id: str,
        *selections: str | tuple[str, float],
        max_rank: int = 0,
        task: Task = Task.TASK_UNSPECIFIED,
    ):
        """Resolves aliases or digests, with strengths where given as pairs."""
        adapters = [
            AdapterSelection(adapter=each)
            if isinstance(each, str)
            else AdapterSelection(adapter=each[0], strength=each[1])
            for each in selections
        ]
        request = pb.ResolveAdaptersRequest(
            claim=self.claim(tenant_id), adapters=adapters, max_rank=max_rank, task=task
        )
        with translate_errors():
            return await self.stub.ResolveAdapters(request, timeout=20)

    async def candidates(self, tenant_id: str, version: str = ""):
        """What the router may choose among."""
        request = pb.ListCandidatesRequest(claim=self.claim(tenant_id), version=version)
        with translate_errors():
            return await self.stub.ListCandidates(request, timeout=20)

    async def install(self, tenant_id: str, package: str, **fields):
        """Installs a package; returns the progress told and the outcome."""
        request = pb.AdapterStoreServiceInstallAdapterRequest(
            claim=self.claim(tenant_id), package=package, **fields
        )
        progress = []
        with translate_errors():
            async for response in self.stub.InstallAdapter(request, timeout=60):
                if response.WhichOneof("event") == "registered":
                    return progress, response.registered
                progress.append(response.progress)
        raise AssertionError("the installation ended without an outcome")

    async def get(self, tenant_id: str, adapter: str):
        """Everything about one adapter."""
        request = pb.AdapterStoreServiceGetAdapterRequest(
            claim=self.claim(tenant_id), adapter=adapter
        )
        with translate_errors():
            return (await self.stub.GetAdapter(request, timeout=20)).adapter

    async def pin(self, tenant_id: str, adapter: str, *, is_pinned: bool = True):
        """Pins an adapter, or lets it go."""
        request = pb.AdapterStoreServicePinAdapterRequest(
            claim=self.claim(tenant_id), adapter=adapter, is_pinned=is_pinned
        )
        with translate_errors():
            return (await self.stub.PinAdapter(request, timeout=20)).adapter

    async def tiers(self):
        """The statistics of the tiers."""
        with translate_errors():
            return (await self.stub.GetTiers(pb.GetTiersRequest(), timeout=20)).tiers

    async def list(self, tenant_id: str, **page):
        """Lists a tenant's adapters."""
        request = pb.AdapterStoreServiceListAdaptersRequest(claim=self.claim(tenant_id), **page)
        with translate_errors():
            return await self.stub.ListAdapters(request, timeout=20)

    async def set_alias(self, tenant_id: str, name: str, digest: str, expected: int | None = None):
        """Points a name."""
        request = pb.AdapterStoreServiceSetAdapterAliasRequest(
            claim=self.claim(tenant_id), name=name, digest=digest, expected_generation=expected
        )
        with translate_errors():
            return (await self.stub.SetAdapterAlias(request, timeout=20)).alias

    async def delete(self, tenant_id: str, adapter: str):
        """Removes an alias or a digest."""
        request = pb.AdapterStoreServiceDeleteAdapterRequest(
            claim=self.claim(tenant_id), adapter=adapter
        )
        with translate_errors():
            return await self.stub.DeleteAdapter(request, timeout=20)

    async def fetch(self, ticket: Sealed, digest: str, *, shared: bool = False):
        """Fetches an adapter: its location, or its files."""
        request = pb.FetchAdapterRequest(
            ticket=ticket, digest=digest, can_read_shared_directory=shared
        )
        kinds = (pb.ADAPTER_FILE_CONFIG, pb.ADAPTER_FILE_WEIGHTS, pb.ADAPTER_FILE_HEAD)
        files = dict.fromkeys(kinds, b"")
        with translate_errors():
            async for response in self.stub.FetchAdapter(request, timeout=20):
                if response.WhichOneof("part") == "location":
                    return response.location
                if response.WhichOneof("part") is None:
                    continue  # what comes with the first message
                files[response.chunk.file] += response.chunk.data
        return AdapterFiles(
            files[pb.ADAPTER_FILE_CONFIG],
            files[pb.ADAPTER_FILE_WEIGHTS],
            head=files[pb.ADAPTER_FILE_HEAD],
        )

    async def report(
        self,
        worker: str,
        *digests: str,
        incarnation: int = 1,
        num_references: int = 0,
        **fields,
    ):
        """Reports slots, as a worker does."""
        request = pb.ReportResidencyRequest(
            worker=worker,
            incarnation=incarnation,
            num_slots=8,
            adapters=[
                pb.ResidentAdapter(digest=digest, num_references=num_references)
                for digest in digests
            ],
            **fields,
        )
        with translate_errors():
            return await self.stub.ReportResidency(request, timeout=20)


async def eventually(holds: Callable[[], bool]) -> None:
    """Returns once a condition holds; fails when it does not within 20 s."""
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the condition never held")


def messages(header: pb.StoreUploadHeader, files: AdapterFiles):
    """All messages of an upload, in small chunks."""
    yield pb.AdapterStoreServiceRegisterAdapterRequest(header=header)
    for kind, data in (
        (pb.ADAPTER_FILE_CONFIG, files.config),
        (pb.ADAPTER_FILE_WEIGHTS, files.weights),
        (pb.ADAPTER_FILE_CARD, files.card),
        (pb.ADAPTER_FILE_HEAD, files.head),
    ):
        for start in range(0, len(data), CHUNK_BYTES):
            yield chunk(kind, data[start : start + CHUNK_BYTES])


def chunk(kind: int, data: bytes) -> pb.AdapterStoreServiceRegisterAdapterRequest:
    """One chunk message."""
    return pb.AdapterStoreServiceRegisterAdapterRequest(
        chunk=pb.StoreUploadChunk(file=kind, data=data)
    )
