"""Follows the health of one worker: its own word, and a heartbeat that notices when it hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.chassis.channel import open_channel
from services.chassis.logs import get_logger
from services.scheduler.roster import Worker

GENERATING_SERVICE = "edgelora.v1.InferenceService"
ENCODING_SERVICE = "edgelora.v1.EncoderService"
"""What a worker of each task calls itself in its health."""


class _WatchEndedError(Exception):
    """The worker closed the watch: it is stopping."""


class WorkerHealth:
    """Reports every change of a worker's readiness through `on_change(name, is_ready)`."""

    def __init__(
        self,
        worker: Worker,
        on_change: Callable[[str, bool], None],
        *,
        service: str,
        heartbeat_s: float,
    ) -> None:
        self._worker = worker
        self._service = service
        self._on_change = on_change
        self._heartbeat_s = heartbeat_s
        self._is_ready = False

    async def run(self) -> None:
        """Watches for ever, through restarts of the worker.

        A worker that dies is noticed when its connection breaks, one that hangs when a heartbeat
        gets no answer, at most two heartbeats later.
        """
        async with open_channel(self._worker.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            while True:
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._watch(stub))
                        group.create_task(self._beat(stub))
                except* (grpc.aio.AioRpcError, _WatchEndedError):
                    self._report(False)
                await asyncio.sleep(self._heartbeat_s / 4)

    async def _watch(self, stub: Any) -> None:
        request = health_pb2.HealthCheckRequest(service=self._service)
        async for response in stub.Watch(request):
            self._report(response.status == health_pb2.HealthCheckResponse.SERVING)
        raise _WatchEndedError

    async def _beat(self, stub: Any) -> None:
        request = health_pb2.HealthCheckRequest(service="")
        while True:
            await stub.Check(request, timeout=self._heartbeat_s)
            await asyncio.sleep(self._heartbeat_s)

    def _report(self, is_ready: bool) -> None:
        if is_ready == self._is_ready:
            return
        self._is_ready = is_ready
        get_logger().info(
            "worker_became_ready" if is_ready else "worker_became_unready", worker=self._worker.name
        )
        self._on_change(self._worker.name, is_ready)
