"""A stand-in for the monitor, written from its proto: it tells what a test has set."""

from __future__ import annotations

import asyncio

from google.protobuf.duration_pb2 import Duration

from edgelora.v1 import monitor_service_pb2 as pb
from edgelora.v1.monitor_service_pb2_grpc import (
    MonitorServiceServicer,
    add_MonitorServiceServicer_to_server,
)
from services.chassis.server import ServiceHost

WITHOUT_MONITOR = {
    "TEMPERATURE_UNKNOWN": "normal",
    "MEMORY_UNKNOWN": "normal",
    "BATTERY_UNKNOWN": "normal",
}
"""Settings of a scheduler under test whose device is none of the test's business."""

_REPEAT_S = 0.2


class StandinMonitor(MonitorServiceServicer):
    """Streams the state at once, at every change, and again and again unless it is silent."""

    def __init__(self) -> None:
        self.pressure = pb.DevicePressure()
        self.is_silent = False
        self.num_watches = 0
        self._changed = asyncio.Event()
        for dimension in ("temperature", "memory", "battery"):
            self.tell(dimension, "NORMAL")

    def tell(
        self, dimension: str, level: str, reading: float | None = None, held_s: float = 12.0
    ) -> None:
        """Changes one dimension."""
        held = Duration()
        held.FromMilliseconds(round(held_s * 1000))
        state = pb.DimensionPressure(
            level=f"PRESSURE_LEVEL_{level}", reading=reading, held=held, sensor="sensor"
        )
        getattr(self.pressure, dimension).CopyFrom(state)
        self._wake()

    def cut(self) -> None:
        """Ends every open watch."""
        self.is_cut = True
        self._wake()

    async def WatchPressure(self, request, context):
        self.num_watches += 1
        self.is_cut = False
        while not self.is_cut:
            changed = self._changed
            if not self.is_silent:
                yield pb.WatchPressureResponse(pressure=self.pressure)
            try:
                async with asyncio.timeout(_REPEAT_S):
                    await changed.wait()
            except TimeoutError:
                pass

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def host_monitor(monitor: StandinMonitor, address: str) -> ServiceHost:
    """A host that serves the stand-in."""
    host = ServiceHost([address])
    host.add(add_MonitorServiceServicer_to_server, monitor, "edgelora.v1.MonitorService")
    return host
