"""A real scheduler process beside a real adapter store and health-only workers."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from edgelora.v1 import scheduler_service_pb2 as pb
from edgelora.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from services.chassis.channel import open_channel
from services.chassis.claims import seal_claim
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost
from tests.integration.adapter_store.store_process import SEAL_KEY, StoreClient, StoreProcess
from tests.support.adapter_files import good_adapter
from tests.support.health_only_worker import make_encoder_worker, make_worker
from tests.support.service_process import ServiceProcess
from tests.support.standin_monitor import WITHOUT_MONITOR

_DEFAULTS = {"MAX_RUNNING_PER_WORKER": "2", "HEARTBEAT": "200ms"}


class SchedulerBench:
    """Starts what a test asks for in one short directory."""

    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self.sealer = Sealer(SEAL_KEY)
        self.store: StoreClient
        self._store_address = self.address("store")
        self.process: ServiceProcess
        self.stub: SchedulerServiceStub

    def address(self, name: str) -> str:
        return f"unix:{self._directory}/{name}.sock"

    async def start_store(self) -> None:
        """The real adapter store; tests that use the base model alone need none."""
        process = StoreProcess(self._directory)
        self._stack.callback(process.close)
        await process.start()
        self._store_address = process.address
        channel = await self._stack.enter_async_context(open_channel(process.address))
        self.store = StoreClient(channel)

    async def register(self, tenant_id: str, alias: str) -> str:
        """Uploads a small adapter and returns its digest."""
        response = await self.store.register(tenant_id, good_adapter(), alias=alias)
        return response.adapter.digest

    async def serve(self, host: ServiceHost) -> None:
        """Serves a stand-in in this process."""
        await self._stack.enter_async_context(host.serving())
        await host.set_ready(True)

    async def start_worker(self, name: str):
        """A health-only worker in this process; the host can change its readiness."""
        host = make_worker(self.address(name))
        await self.serve(host)
        return host

    async def start_encoder_worker(self, name: str):
        """The same for an encoder."""
        host = make_encoder_worker(self.address(name))
        await self.serve(host)
        return host

    def start_worker_process(self, name: str) -> ServiceProcess:
        """A health-only worker that can be killed or paused."""
        address = self.address(name)
        worker = ServiceProcess(
            "tests.support.health_only_worker", address, environ={}, logs=self._directory
        )
        self._stack.callback(worker.kill)
        worker.wait_until_serving(address)
        return worker

    async def start(
        self, workers: tuple[str, ...] = ("w0",), encoders: tuple[str, ...] = (), **settings: str
    ) -> None:
        """Starts the scheduler and opens a channel to it."""
        key_file = self._directory / "seal.key"
        key_file.write_bytes(SEAL_KEY)
        environ = {
            "ADDRESS": self.address("scheduler"),
            "STORE_ADDRESS": self._store_address,
            "MONITOR_ADDRESS": self.address("monitor"),
            **WITHOUT_MONITOR,
            "WORKERS": ",".join(f"{name}={self.address(name)}" for name in workers),
            "ENCODER_WORKERS": ",".join(f"{name}={self.address(name)}" for name in encoders),
            "SEAL_KEY_FILE": str(key_file),
            **_DEFAULTS,
            **settings,
        }
        self.process = ServiceProcess(
            "services.scheduler",
            environ={f"EDGELORA_SCHEDULER_{name}": value for name, value in environ.items()},
            logs=self._directory,
        )
        self._stack.callback(self.process.kill)
        self.process.wait_until_serving(self.address("scheduler"))
        channel = await self._stack.enter_async_context(open_channel(self.address("scheduler")))
        self.stub = SchedulerServiceStub(channel)

    async def start_waiting_client(self, num_requests: int) -> asyncio.subprocess.Process:
        """A gateway-like process with its requests in the queue, to be killed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.waiting_client"),
            self.address("scheduler"),
            self.claim().SerializeToString().hex(),
            str(num_requests),
            stdout=asyncio.subprocess.PIPE,
        )
        assert await process.stdout.readline() == b"queued\n"
        return process

    def claim(self, tenant_id: str = "acme", request_id: str = "r", ttl_s: float = 60.0):
        return seal_claim(
            self.sealer,
            tenant_id=tenant_id,
            request_id=request_id,
            expires_at_boot_s=boot_clock_s() + ttl_s,
        )

    def request(self, tenant_id: str = "acme", request_id: str = "r", **changes):
        return pb.AcquireRequest(
            **{
                "claim": self.claim(tenant_id, request_id),
                "estimated_tokens": 100,
                "max_output_tokens": 50,
                **changes,
            }
        )

    async def acquire(self, tenant_id: str = "acme", **changes) -> pb.Granted:
        """Waits for the grant."""
        events = [
            event
            async for event in self.stub.Acquire(self.request(tenant_id, **changes), timeout=30)
        ]
        assert [event.WhichOneof("event") for event in events] == ["queued", "granted"]
        return events[1].granted

    async def queue(self, tenant_id: str = "acme", **changes):
        """Joins the queue; returns the open call and the first event."""
        call = self.stub.Acquire(self.request(tenant_id, **changes), timeout=30)
        event = await call.read()
        return call, event.queued

    async def release(self, granted: pb.Granted, tenant_id: str = "acme", tokens: int = 10) -> None:
        await self.stub.Release(
            pb.ReleaseRequest(
                ticket_id=granted.ticket_id,
                claim=self.claim(tenant_id),
                num_output_tokens=tokens,
            ),
            timeout=10,
        )

    async def queues(self) -> pb.GetQueuesResponse:
        return await self.stub.GetQueues(pb.GetQueuesRequest(), timeout=10)

    async def wait_for(self, is_true) -> pb.GetQueuesResponse:
        """Asks until the condition on GetQueues holds; the test's own limit ends the wait."""
        while not is_true(queues := await self.queues()):
            pass
        return queues


@pytest.fixture
async def bench() -> AsyncIterator[SchedulerBench]:
    """Nothing runs yet."""
    with tempfile.TemporaryDirectory(prefix="el-") as directory:
        async with AsyncExitStack() as stack:
            yield SchedulerBench(Path(directory), stack)
