"""Translates samples and pressure to the MonitorService protos."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.errors import InvalidRequestError, ServiceUnavailableError
from edgelora.v1 import monitor_service_pb2 as pb
from edgelora.v1 import monitor_service_pb2_grpc as rpc
from services.chassis.claims import open_device_report
from services.chassis.device_report import check_device_report
from services.chassis.sealing import Sealer
from services.monitor.device_pressure import Pressure
from services.monitor.dimension import DimensionState
from services.monitor.explanation import explain
from services.monitor.last_values import LastValues
from services.monitor.pressure_board import PressureBoard
from services.monitor.readings import OWN_SENSORS
from services.monitor.reports import Reports
from services.monitor.sample import BatteryState, DeviceSample, GpuUse, ReportedReadings

_Context = grpc.aio.ServicerContext[Any, Any]
_REPEAT_S = 1.0
_SCALARS = (
    "temperature_celsius",
    "cpu_frequency_hz",
    "cpu_max_frequency_hz",
    "cpu_utilisation",
    "memory_total_bytes",
    "memory_available_bytes",
    "cpu_stall",
    "memory_stall",
    "io_stall",
)


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
            snapshot=self._snapshot(now_s), pressure=_pressure(self._board.current, now_s)
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
        self._reports.take(report.source, _reported(report), now_s)
        return pb.ReportReadingsResponse()

    async def WatchPressure(
        self, request: pb.WatchPressureRequest, context: _Context
    ) -> AsyncIterator[pb.WatchPressureResponse]:
        """Yields the current pressure at once, then every change, and repeats it meanwhile."""
        async for pressure in self._board.watch(_REPEAT_S):
            now_s = self._clock()
            yield pb.WatchPressureResponse(
                pressure=_pressure(pressure, now_s), snapshot=self._snapshot(now_s)
            )

    def _zone_names(self, now_s: float) -> list[str]:
        return [zone.name for zone in self._last_values.at(now_s).thermal_zones]

    def _snapshot(self, now_s: float) -> pb.DeviceSnapshot:
        sample = self._last_values.at(now_s)
        processor_zones = sample.processor_zones
        snapshot = pb.DeviceSnapshot(
            num_cores=self._num_cores,
            thermal_zones=[
                pb.ThermalZone(
                    name=zone.name,
                    temperature_celsius=zone.temperature_celsius,
                    is_processor=zone in processor_zones,
                )
                for zone in sample.thermal_zones
            ],
            gpus=[_gpu(gpu) for gpu in sample.gpus],
            reporting_sources=sorted(
                source for source, readings in self._reports.at(now_s).items() if readings
            ),
            processes=[pb.ProcessSample(**asdict(process)) for process in sample.processes],
            **{name: getattr(sample, name) for name in _SCALARS},
        )
        if (battery := _battery(sample)) is not None:
            snapshot.battery.CopyFrom(battery)
        if (sampled_at_s := self._last_values.sampled_at_s) is not None:
            age_s = now_s - sampled_at_s
            snapshot.age.CopyFrom(_duration(age_s))
            snapshot.sampled_at.CopyFrom(_timestamp(self._wall_clock() - age_s))
        return snapshot


def _reported(report: pb.DeviceReport) -> ReportedReadings:
    return ReportedReadings(
        battery_charge=report.battery_charge if report.HasField("battery_charge") else None,
        battery_state=BatteryState(report.battery_state) if report.battery_state else None,
        temperatures={
            temperature.name: temperature.temperature_celsius for temperature in report.temperatures
        },
    )


def _gpu(gpu: GpuUse) -> pb.Gpu:
    return pb.Gpu(
        name=gpu.name,
        temperature_celsius=gpu.temperature_celsius,
        utilisation=gpu.utilisation,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_used_bytes=gpu.memory_used_bytes,
        power_w=gpu.power_w,
    )


def _battery(sample: DeviceSample) -> pb.Battery | None:
    """None when there is no battery or nothing of it can be read."""
    if not sample.has_battery or (sample.battery_charge is None and sample.battery_state is None):
        return None
    return pb.Battery(
        charge=sample.battery_charge,
        state=pb.BatteryState.Name(sample.battery_state or BatteryState.UNKNOWN),
        power_w=sample.battery_power_w,
    )


def _pressure(pressure: Pressure, now_s: float) -> pb.DevicePressure:
    return pb.DevicePressure(
        **{name: _dimension(name, state, now_s) for name, state in pressure.dimensions.items()}
    )


def _dimension(name: str, state: DimensionState, now_s: float) -> pb.DimensionPressure:
    return pb.DimensionPressure(
        level=pb.PressureLevel.Name(state.level),
        held=_duration(max(0.0, now_s - state.since_s)),
        reading=state.reading.shown if state.reading else None,
        threshold=state.threshold,
        sensor=state.sensor,
        explanation=explain(name, state, now_s),
    )


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration


def _timestamp(seconds: float) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromMilliseconds(round(seconds * 1000))
    return timestamp
