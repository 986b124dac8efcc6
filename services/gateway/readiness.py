"""Follows the health of the services behind the gateway; the gateway is ready when all that an
answer needs are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from edgelora.errors import EdgeLoraError
from edgelora.v1.encoder_service_pb2 import GetEncoderRequest, GetEncoderResponse
from edgelora.v1.inference_service_pb2 import GetModelRequest, GetModelResponse
from services.chassis.logs import get_logger
from services.gateway.upstream import Upstream, errors_of

NEEDED = ("scheduler", "adapter_store")
WORKERS = ("inference", "encoder")
"""One of them is needed. A worker reports itself ready only after it has made a real answer."""
_CHECK_S = 1.0


class Readiness:
    """What every service last said, and the models the workers serve."""

    def __init__(
        self,
        upstream: Upstream,
        addresses: Mapping[str, str],
        *,
        on_change: Callable[[bool], Awaitable[None]],
        interval_s: float,
    ) -> None:
        self._upstream = upstream
        self._addresses = addresses
        self._on_change = on_change
        self._interval_s = interval_s
        self._is_ready = dict.fromkeys(addresses, False)
        self._model: GetModelResponse | None = None
        self._encoder: GetEncoderResponse | None = None
        self._was_ready = False

    @property
    def services(self) -> Mapping[str, bool]:
        """Service name -> whether it is ready."""
        return self._is_ready

    @property
    def model(self) -> GetModelResponse | None:
        """The base model that generates, None until its worker was ready once."""
        return self._model

    @property
    def encoder(self) -> GetEncoderResponse | None:
        """The base model that encodes, None until its worker was ready once."""
        return self._encoder

    @property
    def is_ready(self) -> bool:
        """Whether all that some answer needs is ready."""
        return self._was_ready

    async def run(self) -> None:
        """Looks at every service for ever."""
        async with asyncio.TaskGroup() as group:
            for name, address in self._addresses.items():
                group.create_task(self._follow(name, address))

    async def _follow(self, name: str, address: str) -> None:
        stub: Any = health_pb2_grpc.HealthStub(self._upstream.channel(address))
        while True:
            # A call instead of a watch: it also notices a service that hangs.
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=_CHECK_S)
                is_ready = answer.status == health_pb2.HealthCheckResponse.SERVING
            except grpc.aio.AioRpcError:
                is_ready = False
            if is_ready and name in WORKERS and not self._is_ready[name]:
                is_ready = await self._learn_model(name, address)
            await self._report(name, is_ready)
            await asyncio.sleep(self._interval_s)

    async def _learn_model(self, name: str, address: str) -> bool:
        try:
            if name == "encoder":
                encoder = await self._upstream.encoder(address)
                with errors_of("encoder"):
                    self._encoder = await encoder.GetEncoder(GetEncoderRequest(), timeout=_CHECK_S)
            else:
                worker = await self._upstream.worker(address)
                with errors_of("worker"):
                    self._model = await worker.GetModel(GetModelRequest(), timeout=_CHECK_S)
        except EdgeLoraError as error:
            get_logger().warning("model_unknown", cause=type(error).__name__)
            return False
        return True

    async def _report(self, name: str, is_ready: bool) -> None:
        if self._is_ready[name] != is_ready:
            self._is_ready[name] = is_ready
            get_logger().info("service_readiness_changed", name=name, is_ready=is_ready)
        has_worker = any(self._is_ready.get(worker) for worker in WORKERS)
        is_ready = has_worker and all(self._is_ready[needed] for needed in NEEDED)
        if is_ready != self._was_ready:
            self._was_ready = is_ready
            await self._on_change(is_ready)
