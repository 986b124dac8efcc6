"""Follows the monitor. Whenever it says nothing, nothing is known of the device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from edgelora.v1 import monitor_service_pb2 as pb
from edgelora.v1.monitor_service_pb2_grpc import MonitorServiceStub
from services.chassis.channel import open_channel
from services.chassis.logs import get_logger
from services.scheduler.pressure.device import DeviceState

_PAUSE_S = 0.25


class _MonitorSilentError(Exception):
    """The monitor closed the watch or stopped repeating itself."""


class MonitorWatch:
    """Hands every state to `show`, the unknown one as soon as the watch is broken."""

    def __init__(
        self,
        address: str,
        show: Callable[[DeviceState], None],
        clock: Callable[[], float],
        *,
        silence_s: float,
    ) -> None:
        self._address = address
        self._show = show
        self._clock = clock
        self._silence_s = silence_s
        self._is_heard = False

    async def run(self) -> None:
        """Watches for ever, through restarts of the monitor."""
        async with open_channel(self._address) as channel:
            stub = MonitorServiceStub(channel)  # type: ignore[no-untyped-call]
            while True:
                try:
                    await self._follow(stub.WatchPressure(pb.WatchPressureRequest()))
                except (grpc.aio.AioRpcError, TimeoutError, _MonitorSilentError) as error:
                    self._lose(error)
                await asyncio.sleep(_PAUSE_S)

    async def _follow(self, call: Any) -> None:
        try:
            while True:
                async with asyncio.timeout(self._silence_s):
                    response = await call.read()
                if response is grpc.aio.EOF:
                    raise _MonitorSilentError
                if not self._is_heard:
                    self._is_heard = True
                    get_logger().info("monitor_heard")
                self._show(DeviceState.from_message(response.pressure, self._clock()))
        finally:
            call.cancel()

    def _lose(self, error: Exception) -> None:
        if self._is_heard:
            self._is_heard = False
            get_logger().warning("monitor_silent", cause=type(error).__name__)
            self._show(DeviceState.unknown(self._clock()))
