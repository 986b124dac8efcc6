"""Starts the monitor: settings, objects, serve."""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import psutil

from edgelora.v1.monitor_service_pb2_grpc import add_MonitorServiceServicer_to_server
from services.chassis.interceptor import DeadlinePolicy
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost, run_service
from services.monitor.config import MonitorConfig
from services.monitor.device import Device
from services.monitor.device_pressure import DevicePressure
from services.monitor.growth import MemoryGrowth
from services.monitor.history import History
from services.monitor.last_values import LastValues
from services.monitor.pressure_board import PressureBoard
from services.monitor.probes.sensor_files import SensorFiles
from services.monitor.probes.termux import TermuxBattery
from services.monitor.reports import Reports
from services.monitor.sampler import Sampler
from services.monitor.servicer import MonitorServicer

if TYPE_CHECKING:
    from services.monitor.metrics import MonitorMetrics

_SERVICE = "edgelora.v1.MonitorService"


async def main(environ: Mapping[str, str]) -> None:
    """Serves until SIGTERM or SIGINT."""
    config = MonitorConfig.from_env(environ)
    command = shutil.which(config.termux_command)
    termux = TermuxBattery(command) if command else None
    device = Device(
        SensorFiles(config.root, boot_clock_s),
        processor_names=config.processor_zones,
        fallback_names=config.fallback_zones,
        run_directory=config.run_directory,
        termux=termux,
        clock=boot_clock_s,
    )
    last_values = LastValues(config.hold_s)
    reports = Reports(config.hold_s)
    pressure = DevicePressure(config.thresholds, config.reported_zones, boot_clock_s())
    board = PressureBoard(pressure.current)
    sampler = Sampler(
        device.sample,
        last_values,
        reports,
        pressure,
        History(math.ceil(config.history_s / config.interval_s)),
        board,
        MemoryGrowth(config.growth_window_s),
        clock=boot_clock_s,
        interval_s=config.interval_s,
    )
    metrics = _metrics(config, last_values, board)
    servicer = MonitorServicer(
        last_values,
        reports,
        board,
        Sealer(config.seal_key),
        num_cores=psutil.cpu_count() or 1,
        interval_s=config.interval_s,
        clock=boot_clock_s,
        wall_clock=time.time,
    )
    host = ServiceHost(
        [config.address],
        deadlines=DeadlinePolicy(unbounded_methods=frozenset({f"/{_SERVICE}/WatchPressure"})),
        observe=metrics.calls.note_end if metrics else None,
    )
    host.add(add_MonitorServiceServicer_to_server, servicer, _SERVICE)
    async with (
        metrics.serving() if metrics else nullcontext(),
        host.serving(),
        asyncio.TaskGroup() as group,
    ):
        running = [group.create_task(sampler.run())]
        if termux is not None:
            running.append(group.create_task(termux.run()))
        stopping = group.create_task(host.wait_for_stop())
        first_sample = group.create_task(sampler.has_sampled.wait())
        # A sensor that hangs from the start leaves all unknown, and keeps nothing from starting.
        await asyncio.wait(
            [first_sample, stopping],
            timeout=config.hold_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        await host.set_ready(not stopping.done())
        await stopping
        board.close()
        for task in (*running, first_sample):
            task.cancel()


def _metrics(
    config: MonitorConfig, last_values: LastValues, board: PressureBoard
) -> MonitorMetrics | None:
    if config.metrics_address is None:
        return None
    from services.monitor.metrics import MonitorMetrics  # takes 4 MB

    metrics = MonitorMetrics(config.metrics_address)
    metrics.watch(last_values, board, boot_clock_s)
    return metrics


if __name__ == "__main__":
    run_service("monitor", main)
