"""Starts the scheduler: settings, objects, serve."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from edgelora.errors import ServiceUnavailableError
from edgelora.v1.scheduler_service_pb2_grpc import add_SchedulerServiceServicer_to_server
from services.chassis.channel import open_channel
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost, run_service
from services.chassis.settings import ConfigError
from services.scheduler.config import SchedulerConfig
from services.scheduler.dispatcher import Dispatcher
from services.scheduler.lanes import Lane, Lanes, Task
from services.scheduler.leases import LeaseTable
from services.scheduler.pressure.admission import PressureAdmission
from services.scheduler.pressure.current import CurrentPressure
from services.scheduler.pressure.restrictions import Restrictions
from services.scheduler.pressure.run_limits import WorkerLimits
from services.scheduler.pressure.watch import MonitorWatch
from services.scheduler.request_queue import RequestQueue
from services.scheduler.roster import Roster, Worker
from services.scheduler.routing.adapter_choice import AdapterChoice
from services.scheduler.routing.auto_selection import AutoSelection
from services.scheduler.routing.candidates import CandidateCache
from services.scheduler.routing.router_source import RouterSource, packaged_file
from services.scheduler.schedule import Schedule
from services.scheduler.servicer import SchedulerServicer
from services.scheduler.store import AdapterStore
from services.scheduler.worker_health import (
    ENCODING_SERVICE,
    GENERATING_SERVICE,
    WorkerHealth,
)

if TYPE_CHECKING:
    from services.scheduler.metrics import SchedulerMetrics

_OTHER_STREAMS = 512


async def main(environ: Mapping[str, str]) -> None:
    """Serves until SIGTERM or SIGINT."""
    config = SchedulerConfig.from_env(environ)
    try:
        sealer = Sealer(config.seal_key)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    lanes = Lanes(_lanes(config))
    # An encoder takes none: it runs what it was given and is done with it.
    limits = {
        worker.name: WorkerLimits(worker, sealer, boot_clock_s)
        for lane in lanes.all()
        if lane.task is Task.GENERATE
        for worker in lane.schedule.roster.all()
    }

    def obey(restrictions: Restrictions) -> None:
        lanes.limit_places(restrictions.places)
        for worker_limits in limits.values():
            worker_limits.set_shares(restrictions.run_shares)

    def health_of(lane: Lane, worker: Worker) -> WorkerHealth:
        def note_ready(name: str, is_ready: bool) -> None:
            lane.dispatcher.set_ready(name, is_ready)
            if name in limits:
                limits[name].note_ready(is_ready)

        service = GENERATING_SERVICE if lane.task is Task.GENERATE else ENCODING_SERVICE
        return WorkerHealth(worker, note_ready, service=service, heartbeat_s=config.heartbeat_s)

    pressure = CurrentPressure(config.pressure, boot_clock_s, obey)
    watch = MonitorWatch(
        config.monitor_address, pressure.show, boot_clock_s, silence_s=config.pressure.silence_s
    )
    # All requests of a gateway wait on its one connection; releases must get past them.
    num_waiting = sum(config.limits.max_waiting.values()) * len(lanes.all())
    metrics = _metrics(config, lanes, pressure)
    host = ServiceHost(
        [config.address],
        max_streams=num_waiting + _OTHER_STREAMS,
        observe=metrics.calls.note_end if metrics else None,
    )
    async with (
        metrics.serving() if metrics else nullcontext(),
        open_channel(config.store_address) as channel,
    ):
        store = AdapterStore(channel, timeout_s=config.store_timeout_s)
        admission = PressureAdmission(
            pressure, store, boot_clock_s, retry_after_s=config.pressure.retry_after_s
        )
        choice = AdapterChoice(
            RouterSource([*config.routing.files, packaged_file()], boot_clock_s),
            CandidateCache(store),
            config.routing.rules,
            boot_clock_s,
        )
        servicer = SchedulerServicer(
            lanes,
            pressure,
            admission,
            AutoSelection(choice, pressure, lanes.adapters_in_use, boot_clock_s),
            sealer,
            boot_clock_s,
            ticket_s=config.ticket_s,
            observe=metrics.note_end if metrics else None,
        )
        host.add(add_SchedulerServiceServicer_to_server, servicer, "edgelora.v1.SchedulerService")
        async with host.serving(), asyncio.TaskGroup() as group:
            tasks = [group.create_task(watch.run())]
            tasks += [group.create_task(each.run()) for each in limits.values()]
            for lane in lanes.all():
                tasks.append(group.create_task(lane.dispatcher.run()))
                for worker in lane.schedule.roster.all():
                    tasks.append(group.create_task(health_of(lane, worker).run()))
            await host.set_ready(True)
            await host.wait_for_stop()
            lanes.refuse_all(
                ServiceUnavailableError("the scheduler is stopping: try again", retry_after_s=1.0)
            )
            for task in tasks:
                task.cancel()


def _lanes(config: SchedulerConfig) -> dict[Task, Lane]:
    workers = {
        Task.GENERATE: (config.workers, config.max_running_per_worker),
        Task.ENCODE: (config.encoder_workers, config.max_running_per_encoder),
    }
    lanes = {}
    for task, (addresses, max_running) in workers.items():
        if addresses:
            schedule = Schedule(
                RequestQueue(config.limits),
                LeaseTable(config.lease_s),
                Roster(addresses, max_running, boot_clock_s()),
                load_factor=config.load_factor,
                no_worker_limit_s=config.no_worker_limit_s,
            )
            dispatcher = Dispatcher(schedule, boot_clock_s)
            lanes[task] = Lane(task=task, schedule=schedule, dispatcher=dispatcher)
    return lanes


def _metrics(
    config: SchedulerConfig, lanes: Lanes, pressure: CurrentPressure
) -> SchedulerMetrics | None:
    if config.metrics_address is None:
        return None
    from services.scheduler.metrics import SchedulerMetrics  # takes 4 MB

    metrics = SchedulerMetrics(config.metrics_address)
    metrics.watch(lanes, pressure)
    return metrics


if __name__ == "__main__":
    run_service("scheduler", main)
