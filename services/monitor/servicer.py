"""The MonitorService: snapshots, the pressure as it changes, reports of outside sources."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from edgelora.errors import InvalidRequestError, ServiceUnavailableError
from edgelora.v1 import monitor_service_pb2 as pb
from edgelora.v1 import monitor_service_pb2_grpc as rpc
from services.chassis.claims import open_device_report
from services.chassis.device_report import check_device_report
from services.chassis.sealing import Sealer
from services.monitor import messages
from services.monitor.last_values import LastValues
from services.monitor.pressure_board import PressureBoard
from services.monitor.readings import OWN_SENSORS
from services.monitor.reports import Reports

_Context = grpc.aio.ServicerContext[Any, Any]
_REPEAT_S = 1.0


class MonitorServicer(rpc.MonitorServiceServicer):
    """The gRPC face of the monitor."""

    def __init__(
        self,
        last_values: LastValues,
        reports: Reports,
        board: PressureBoard,
        sealer: Sealer,
        *,
        num_cores: int,
        interval_s: float,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._last_values = last_values
        self._reports = reports
        self._board = board
        self._sealer = sealer
        self._num_cores = num_cores
        self._interval_s = interval_s
        self._clock = clock
        self._wall_clock = wall_clock

    async def GetSnapshot(
        self, request: pb.GetSnapshotRequest, context: _Context
    ) -> pb.GetSnapshotResponse:
        """Returns what is known now."""
        if self._last_values.sampled_at_s is None:
            raise ServiceUnavailableError(
                "no sample has been taken yet: try again", retry_after_s=self._interval_s
            )
        now_s = self._clock()
        return pb.GetSnapshotResponse(
            snapshot=self._snapshot(now_s),
            pressure=messages.device_pressure(self._board.current, now_s),
        )

    async def ReportReadings(
        self, request: pb.ReportReadingsRequest, context: _Context
    ) -> pb.ReportReadingsResponse:
        """Takes what an outside source has measured, or that it goes away."""
        now_s = self._clock()
        report = open_device_report(self._sealer, request.report, now_s)
        check_device_report(report)
        if report.is_withdrawn:
            self._reports.withdraw(report.source)
            return pb.ReportReadingsResponse()
        if report.source in {*OWN_SENSORS, *self._zone_names(now_s)}:
            raise InvalidRequestError(
                "report.source must not be the name of a sensor of the device",
                field="report.source",
            )
        self._reports.take(report.source, messages.reported(report), now_s)
        return pb.ReportReadingsResponse()

    async def WatchPressure(
        self, request: pb.WatchPressureRequest, context: _Context
    ) -> AsyncIterator[pb.WatchPressureResponse]:
        """Yields the current pressure at once, then every change, and repeats it meanwhile."""
        async for pressure in self._board.watch(_REPEAT_S):
            now_s = self._clock()
            yield pb.WatchPressureResponse(
                pressure=messages.device_pressure(pressure, now_s), snapshot=self._snapshot(now_s)
            )

    def _zone_names(self, now_s: float) -> list[str]:
        return [zone.name for zone in self._last_values.at(now_s).thermal_zones]

    def _snapshot(self, now_s: float) -> pb.DeviceSnapshot:
        told = self._reports.at(now_s)
        snapshot = messages.device_snapshot(
            self._last_values.at(now_s),
            num_cores=self._num_cores,
            reporting_sources=[source for source, readings in told.items() if readings],
        )
        if (sampled_at_s := self._last_values.sampled_at_s) is not None:
            age_s = now_s - sampled_at_s
            snapshot.age.CopyFrom(messages.duration(age_s))
            snapshot.sampled_at.CopyFrom(messages.timestamp(self._wall_clock() - age_s))
        return snapshot
