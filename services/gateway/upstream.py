"""Channels to the services behind the gateway: one for each address, closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import grpc

from edgelora.errors import CancelledRequestError, ServiceUnavailableError, WorkerLostError
from edgelora.v1.adapter_store_service_pb2_grpc import AdapterStoreServiceStub
from edgelora.v1.encoder_service_pb2_grpc import EncoderServiceStub
from edgelora.v1.inference_service_pb2_grpc import InferenceServiceStub
from edgelora.v1.monitor_service_pb2_grpc import MonitorServiceStub
from edgelora.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from services.chassis.channel import open_channel, translate_errors

_CONNECT_S = 1.0
_RETRY_AFTER_S = 1.0


class Upstream:
    """The scheduler, the store, the monitor and any number of workers."""

    def __init__(self, *, scheduler: str, store: str, monitor: str) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._scheduler = scheduler
        self._store = store
        self._monitor = monitor

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for channel in self._channels.values():
            await channel.close()

    async def scheduler(self) -> Any:
        """A SchedulerService stub. Raises ServiceUnavailableError when it can not be reached."""
        return SchedulerServiceStub(await self._connected(self._scheduler, "scheduler"))  # type: ignore[no-untyped-call]

    async def store(self) -> Any:
        """An AdapterStoreService stub. Raises ServiceUnavailableError."""
        return AdapterStoreServiceStub(await self._connected(self._store, "adapter store"))  # type: ignore[no-untyped-call]

    async def monitor(self) -> Any:
        """A MonitorService stub. Raises ServiceUnavailableError."""
        return MonitorServiceStub(await self._connected(self._monitor, "monitor"))  # type: ignore[no-untyped-call]

    async def worker(self, address: str) -> Any:
        """An InferenceService stub. Raises ServiceUnavailableError."""
        return InferenceServiceStub(await self._connected(address, "worker"))  # type: ignore[no-untyped-call]

    async def encoder(self, address: str) -> Any:
        """An EncoderService stub. Raises ServiceUnavailableError."""
        return EncoderServiceStub(await self._connected(address, "encoder"))  # type: ignore[no-untyped-call]

    def channel(self, address: str) -> grpc.aio.Channel:
        """The one channel to an address."""
        if address not in self._channels:
            self._channels[address] = open_channel(address)
        return self._channels[address]

    async def _connected(self, address: str, name: str) -> grpc.aio.Channel:
        # A call on a channel that waits to reconnect fails at once, even when the service has
        # just come back: give it the second its longest pause lasts.
        channel = self.channel(address)
        if channel.get_state(try_to_connect=True) is not grpc.ChannelConnectivity.READY:
            try:
                async with asyncio.timeout(_CONNECT_S):
                    await channel.channel_ready()
            except TimeoutError:
                raise unavailable(name) from None
        return channel


def unavailable(name: str) -> ServiceUnavailableError:
    """The error of a service that does not answer."""
    return ServiceUnavailableError(
        f"the {name} does not answer: try again in a moment",
        metadata={"service": name},
        retry_after_s=_RETRY_AFTER_S,
    )


def worker_lost() -> WorkerLostError:
    """The error of a request whose worker has gone away."""
    return WorkerLostError(
        "the worker that ran this request is gone: send the request again", retry_after_s=1.0
    )


@contextmanager
def errors_of_worker() -> Iterator[None]:
    """Raises a worker's failure as our own class; one that goes away takes its request along."""
    try:
        with translate_errors():
            yield
    except (ServiceUnavailableError, CancelledRequestError) as error:
        if "remote" in error.metadata:
            raise  # the worker is there: the remote of an adapter is not
        # Our own cancelling arrives as asyncio.CancelledError: this is the worker going away.
        raise worker_lost() from error


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Raises a call's failure as our own class; says which service did not answer."""
    try:
        with translate_errors():
            yield
    except ServiceUnavailableError as error:
        is_bare = error.retry_after_s is None and not error.metadata
        raise unavailable(name) if is_bare else error from None
