"""Follows the health of the services behind the gateway; the gateway is ready when all that a
token needs are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from edgelora.errors import EdgeLoraError
from edgelora.v1.inference_service_pb2 import GetModelRequest, GetModelResponse
from services.chassis.logs import get_logger
from services.gateway.upstream import Upstream, errors_of

NEEDED = ("scheduler", "adapter_store", "inference")
"""A worker reports itself ready only after it has generated a real token."""
_CHECK_S = 1.0


class Readiness:
    """What every service last said, and the model the worker serves."""

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
        self._was_ready = False

    @property
    def services(self) -> Mapping[str, bool]:
        """Service name -> whether it is ready."""
        return self._is_ready

    @property
    def model(self) -> GetModelResponse | None:
        """The base model, None until a worker was ready once."""
        return self._model

    @property
    def is_ready(self) -> bool:
        """Whether all that a generation needs is ready."""
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
            if is_ready and name == "inference" and not self._is_ready[name]:
                is_ready = await self._learn_model(address)
            await self._report(name, is_ready)
            await asyncio.sleep(self._interval_s)

    async def _learn_model(self, address: str) -> bool:
        try:
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
        all_ready = all(self._is_ready[needed] for needed in NEEDED)
        if all_ready != self._was_ready:
            self._was_ready = all_ready
            await self._on_change(all_ready)
