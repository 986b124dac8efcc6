"""The gRPC server of a service: health, reflection, interceptor, orderly stop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from services.chassis.channel import MAX_MESSAGE_BYTES
from services.chassis.interceptor import (
    CallInterceptor,
    CallObserver,
    DeadlinePolicy,
    TracePolicy,
)
from services.chassis.logs import configure_logging, get_logger
from services.chassis.settings import ConfigError
from services.chassis.tls import ServerTls
from services.chassis.tracing import ENDPOINT_VARIABLE, close_tracing, configure_tracing

_DRAIN_S = 10.0
# A certificate is looked at when a connection opens: none stays open long after its end. Calls
# that run finish on the old connection.
_MUTUAL_TLS_OPTIONS = (("grpc.max_connection_age_ms", 3_600_000),)
_EXIT_BAD_CONFIG = 2


class ServiceHost:
    """Hosts one service on one or more addresses (`unix:/path` or `host:port`)."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        deadlines: DeadlinePolicy | None = None,
        trust_request_id: bool = True,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_streams: int = 512,
        observe: CallObserver | None = None,
        tls: ServerTls | None = None,
        mutual_tls_address: str | None = None,
        has_reflection: bool = True,
        traces: TracePolicy | None = None,
    ) -> None:
        """`max_streams`: most calls at once on one connection; further ones wait at the client.
        `observe` is told how each call ended. `tls`: for every address but unix sockets.
        `mutual_tls_address`: one more, where every client shows a certificate. `traces`: None for
        those that traced services make."""
        self._addresses = addresses
        self._tls = tls
        self._mutual_tls_address = mutual_tls_address
        self._has_reflection = has_reflection
        self.server = grpc.aio.server(
            interceptors=[
                CallInterceptor(
                    deadlines or DeadlinePolicy(),
                    trust_request_id=trust_request_id,
                    observe=observe,
                    traces=traces,
                )
            ],
            options=[
                ("grpc.max_send_message_length", max_message_bytes),
                ("grpc.max_receive_message_length", max_message_bytes),
                ("grpc.max_concurrent_streams", max_streams),
                ("grpc.max_metadata_size", 16 * 1024),
                ("grpc.so_reuseport", 0),
                *(_MUTUAL_TLS_OPTIONS if mutual_tls_address else ()),
            ],
        )
        self._health = health.aio.HealthServicer()
        self._service_names: list[str] = []
        self._stop = asyncio.Event()
        self.bound_ports: list[int] = []
        """Ports in the order of the addresses, that of mutual TLS last; 1 for a unix socket."""

    def add(
        self, add_to_server: Callable[[Any, grpc.aio.Server], None], servicer: object, name: str
    ) -> None:
        """Registers a servicer under its full name, for example `edgelora.v1.MonitorService`."""
        add_to_server(servicer, self.server)
        self._service_names.append(name)

    async def set_ready(self, is_ready: bool) -> None:
        """Reports readiness for every service and for the server as a whole ("")."""
        response = health_pb2.HealthCheckResponse
        status = response.SERVING if is_ready else response.NOT_SERVING
        for name in ["", *self._service_names]:
            await self._health.set(name, status)

    async def set_ready_of(self, name: str, is_ready: bool) -> None:
        """Reports readiness for a service that another host serves."""
        response = health_pb2.HealthCheckResponse
        status = response.SERVING if is_ready else response.NOT_SERVING
        await self._health.set(name, status)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listens, not ready yet; on leaving refuses new calls and drains the running ones.

        Raises OSError when an address can not be bound.
        """
        await self.set_ready(False)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.server)
        if self._has_reflection:
            reflection.enable_server_reflection(
                [*self._service_names, health.SERVICE_NAME, reflection.SERVICE_NAME], self.server
            )
        for address in self._addresses:
            self.bound_ports.append(self._bind(address))
        if self._mutual_tls_address is not None:
            self.bound_ports.append(self._bind(self._mutual_tls_address, is_mutual=True))
        await self.server.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        get_logger().info("service_started", addresses=list(self._addresses))
        try:
            yield
        finally:
            await self._health.enter_graceful_shutdown()
            await self.server.stop(_DRAIN_S)
            get_logger().info("service_stopped")

    def _bind(self, address: str, *, is_mutual: bool = False) -> int:
        try:
            if self._tls is None or address.startswith("unix:"):
                return self.server.add_insecure_port(address)
            credentials = self._tls.grpc_credentials(is_mutual=is_mutual)
            return self.server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: is it in use?") from error

    async def wait_for_stop(self) -> None:
        """Returns when SIGTERM or SIGINT has arrived.

        Called once all is there that stays to the end: a full collection of garbage that walked
        over it would hold every call up for tens of milliseconds.
        """
        gc.collect()
        gc.freeze()
        await self._stop.wait()


def run_service(name: str, main: Callable[[Mapping[str, str]], Awaitable[None]]) -> None:
    """Runs a service's `main(environ)`; a wrong setting is one clear line and exit status 2."""
    os.umask(0o077)
    configure_logging(name, os.environ.get("EDGELORA_LOG_LEVEL", "info"))
    try:
        configure_tracing(name, os.environ.get(ENDPOINT_VARIABLE, ""))
        asyncio.run(_as_coroutine(main))
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        sys.exit(_EXIT_BAD_CONFIG)
    finally:
        close_tracing()


async def _as_coroutine(main: Callable[[Mapping[str, str]], Awaitable[None]]) -> None:
    await main(os.environ)
