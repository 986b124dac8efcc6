"""A real gateway and a real scheduler process, beside a stand-in worker and a stand-in store."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from edgelora.client import AdminClient, EdgeLoraClient
from edgelora.v1 import scheduler_service_pb2 as scheduler_pb
from edgelora.v1.gateway_service_pb2_grpc import GatewayServiceStub
from edgelora.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from services.chassis.channel import open_channel
from services.chassis.healthcheck import GATEWAY_SERVICE, is_serving
from services.chassis.sealing import Sealer
from services.chassis.server import ServiceHost
from services.gateway.config import GatewayConfig
from services.gateway.gateway import serving
from tests.support.fake_sysfs import FakeSysfs
from tests.support.free_port import free_port
from tests.support.service_process import ServiceProcess
from tests.support.standin_encoder import StandinEncoder, host_encoder
from tests.support.standin_monitor import WITHOUT_MONITOR
from tests.support.standin_registry import StandinRegistry
from tests.support.standin_store import host_store
from tests.support.standin_worker import StandinWorker, host_worker

KEY = b"a seal key of at least 32 bytes!"


class GatewayBench:
    """Starts what a test asks for in one short directory."""

    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self.directory = directory
        self._stack = stack
        self._key_file = directory / "seal.key"
        self._key_file.write_bytes(KEY)
        self.operator_key = secrets.token_hex(32)
        self._operator_key_file = directory / "operator.key"
        self._operator_key_file.write_text(self.operator_key)
        self.sealer = Sealer(KEY)
        self.worker = StandinWorker(self.sealer)
        self.encoder = StandinEncoder(self.sealer)
        self.store = StandinRegistry(self.sealer)
        self.scheduler: ServiceProcess
        self.worker_host: ServiceHost
        self.keys: dict[str, str] = {}
        self.http_port = free_port()
        self.dashboard_port = free_port()

    def address(self, name: str) -> str:
        """The socket of a service of this bench."""
        return f"unix:{self.directory}/{name}.sock"

    async def start_store(self) -> ServiceHost:
        host = host_store(self.store, self.address("store"))
        await self._stack.enter_async_context(host.serving())
        await host.set_ready(True)
        return host

    async def start_worker(self) -> None:
        self.worker_host = host_worker(self.worker, self.address("inference"))
        await self._stack.enter_async_context(self.worker_host.serving())
        await self.worker_host.set_ready(True)

    async def start_encoder(self) -> ServiceHost:
        """The stand-in encoder, in this process."""
        host = host_encoder(self.encoder, self.address("encoder"))
        await self._stack.enter_async_context(host.serving())
        await host.set_ready(True)
        return host

    def ends_with(self, process: ServiceProcess) -> None:
        """The process ends with the bench."""
        self._stack.callback(process.kill)

    def start_worker_process(self, hold_after: int) -> ServiceProcess:
        """A stand-in worker that can be killed; it holds for ever after so many words."""
        process = ServiceProcess(
            "tests.support.standin_worker",
            self.address("inference"),
            str(self._key_file),
            str(hold_after),
            environ={},
            logs=self.directory,
        )
        self.ends_with(process)
        process.wait_until_serving(self.address("inference"))
        return process

    def start_scheduler(self, **settings: str) -> None:
        environ = {
            "ADDRESS": self.address("scheduler"),
            "STORE_ADDRESS": self.address("store"),
            "MONITOR_ADDRESS": self.address("monitor"),
            **WITHOUT_MONITOR,
            "WORKERS": f"w0={self.address('inference')}",
            "SEAL_KEY_FILE": str(self._key_file),
            "HEARTBEAT": "200ms",
            "MAX_WAITING_PER_TENANT": "256",
            **settings,
        }
        self.scheduler = ServiceProcess(
            "services.scheduler",
            environ={f"EDGELORA_SCHEDULER_{name}": value for name, value in environ.items()},
            logs=self.directory,
        )
        self.ends_with(self.scheduler)
        self.scheduler.wait_until_serving(self.address("scheduler"))

    def start_monitor(self, **settings: str) -> FakeSysfs:
        """A monitor process; returns its device, which has no sensor yet."""
        sysfs = FakeSysfs(self.directory / "root")
        sysfs.root.mkdir()
        environ = {
            "ADDRESS": self.address("monitor"),
            "ROOT": str(sysfs.root),
            "SEAL_KEY_FILE": str(self._key_file),
            "INTERVAL": "50ms",
            **settings,
        }
        self.monitor = ServiceProcess(
            "services.monitor",
            environ={f"EDGELORA_MONITOR_{name}": value for name, value in environ.items()},
            logs=self.directory,
        )
        self.ends_with(self.monitor)
        self.monitor.wait_until_serving(self.address("monitor"))
        return sysfs

    def gateway_environ(self, **settings: str) -> dict[str, str]:
        environ = {
            "ADDRESS": self.address("gateway"),
            "ADMIN_ADDRESS": self.address("admin"),
            "HTTP_ADDRESS": f"127.0.0.1:{self.http_port}",
            "OPERATOR_HTTP_ADDRESS": f"127.0.0.1:{self.dashboard_port}",
            "OPERATOR_KEY_FILE": str(self._operator_key_file),
            "DIRECTORY": str(self.directory / "gateway"),
            "SCHEDULER_ADDRESS": self.address("scheduler"),
            "STORE_ADDRESS": self.address("store"),
            "MONITOR_ADDRESS": self.address("monitor"),
            "INFERENCE_ADDRESS": self.address("inference"),
            "SEAL_KEY_FILE": str(self._key_file),
            "HEALTH_INTERVAL": "50ms",
            **settings,
        }
        return {f"EDGELORA_GATEWAY_{name}": value for name, value in environ.items()}

    async def start_gateway(self, **settings: str) -> None:
        """A gateway in this process, ready."""
        config = GatewayConfig.from_env(self.gateway_environ(**settings))
        await self._stack.enter_async_context(serving(config))
        await self.wait_for_health(health_pb2.HealthCheckResponse.SERVING)

    async def start_gateway_behind_tls(self, **settings: str) -> None:
        """A gateway in this process, ready, whose own door nobody can ask in clear text."""
        config = GatewayConfig.from_env(self.gateway_environ(**settings))
        await self._stack.enter_async_context(serving(config))
        while not await is_serving(self.address("admin"), service=GATEWAY_SERVICE):
            pass

    async def start_gateway_process(self, **settings: str) -> ServiceProcess:
        """A gateway that can be killed, ready."""
        process = ServiceProcess(
            "services.gateway", environ=self.gateway_environ(**settings), logs=self.directory
        )
        self.ends_with(process)
        # Not blocking: the gateway asks the stand-ins on this loop for their health.
        ready = asyncio.create_task(self.wait_for_health(health_pb2.HealthCheckResponse.SERVING))
        ended = asyncio.create_task(asyncio.to_thread(process.process.wait))
        await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
        assert ready.done(), f"the gateway has ended with status {process.process.returncode}"
        return process

    async def start(self, **settings: str) -> None:
        """Everything, with the gateway and the worker in this process."""
        await self.start_store()
        await self.start_worker()
        self.start_scheduler()
        await self.start_gateway(**settings)

    async def start_with_encoder(self, *, has_decoder: bool = True, **settings: str) -> str:
        """Everything with an encoder; returns the digest of tenant acme's classifier `intents`."""
        await self.start_store()
        await self.start_encoder()
        without = {}
        if has_decoder:
            await self.start_worker()
        else:
            without = {"INFERENCE_ADDRESS": ""}
        address = self.address("encoder")
        workers = {} if has_decoder else {"WORKERS": ""}
        self.start_scheduler(ENCODER_WORKERS=f"e0={address}", **workers)
        await self.start_gateway(ENCODER_ADDRESS=address, **without, **settings)
        client = await self.client("acme")
        # Either worker makes the gateway ready.
        needed = {"encoder"} | ({"inference"} if has_decoder else set())
        while not needed <= {
            each.name for each in (await client.status()).services if each.is_ready
        }:
            pass
        return self.store.add_encoder_adapter("acme", "intents")

    @asynccontextmanager
    async def health_watch(self) -> AsyncIterator[AsyncIterator[int]]:
        """What the gateway's health says: now, and at every change."""
        async with open_channel(self.address("gateway")) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(), wait_for_ready=True
            )
            try:
                yield (response.status async for response in watch)
            finally:
                watch.cancel()

    async def wait_for_health(self, status: int) -> None:
        """Returns when the gateway's health says so; the test's own limit ends the wait."""
        async with self.health_watch() as statuses:
            async for seen in statuses:
                if seen == status:
                    return

    async def admin(self) -> AdminClient:
        return await self._stack.enter_async_context(AdminClient(self.address("admin")))

    async def client(self, tenant_id: str = "acme", **limits: int) -> EdgeLoraClient:
        """A tenant's client; makes the tenant at first."""
        if tenant_id not in self.keys:
            admin = await self.admin()
            created = await admin.create_tenant(tenant_id, **limits)
            self.keys[tenant_id] = created.api_key
        return await self._stack.enter_async_context(
            EdgeLoraClient(self.address("gateway"), self.keys[tenant_id])
        )

    async def stub(self, **options: int) -> GatewayServiceStub:
        """The bare stub, for what the client does not send; channel options by name."""
        channel = grpc.aio.insecure_channel(
            self.address("gateway"),
            options=[
                ("grpc.default_authority", "localhost"),
                *((f"grpc.{name}", value) for name, value in options.items()),
            ],
        )
        return GatewayServiceStub(await self._stack.enter_async_context(channel))

    def authorization(self, tenant_id: str = "acme") -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.keys[tenant_id]}"),)

    async def wait_for_queues(self, is_true) -> None:
        """Asks the scheduler until the condition on GetQueues holds."""
        async with open_channel(self.address("scheduler")) as channel:
            stub = SchedulerServiceStub(channel)
            while not is_true(await stub.GetQueues(scheduler_pb.GetQueuesRequest(), timeout=10)):
                pass

    async def wait_until_idle(self) -> None:
        """Returns when nothing runs and nothing waits, at the worker and at the scheduler."""
        await self.wait_for_queues(
            lambda queues: (
                self.worker.num_open == self.encoder.num_open == 0
                and not any(queue.num_waiting or queue.num_running for queue in queues.queues)
            )
        )


@asynccontextmanager
async def gateway_bench() -> AsyncIterator[GatewayBench]:
    """A bench on which nothing runs yet."""
    with tempfile.TemporaryDirectory(prefix="el-") as directory:
        async with AsyncExitStack() as stack:
            yield GatewayBench(Path(directory), stack)
