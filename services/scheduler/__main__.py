"""Starts the scheduler: settings, objects, serve."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from edgelora.errors import ServiceUnavailableError
from edgelora.v1.scheduler_service_pb2_grpc import add_SchedulerServiceServicer_to_server
from services.chassis.channel import open_channel
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost, run_service
from services.chassis.settings import ConfigError
from services.scheduler.config import SchedulerConfig
from services.scheduler.dispatcher import Dispatcher
from services.scheduler.leases import LeaseTable
from services.scheduler.request_queue import RequestQueue
from services.scheduler.roster import Roster
from services.scheduler.schedule import Schedule
from services.scheduler.servicer import SchedulerServicer
from services.scheduler.store import AdapterStore
from services.scheduler.worker_health import WorkerHealth


async def main(environ: Mapping[str, str]) -> None:
    """Serves until SIGTERM or SIGINT."""
    config = SchedulerConfig.from_env(environ)
    try:
        sealer = Sealer(config.seal_key)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    roster = Roster(config.workers, config.max_running_per_worker, boot_clock_s())
    schedule = Schedule(
        RequestQueue(config.limits),
        LeaseTable(config.lease_s),
        roster,
        load_factor=config.load_factor,
        no_worker_limit_s=config.no_worker_limit_s,
    )
    dispatcher = Dispatcher(schedule, boot_clock_s)
    host = ServiceHost([config.address])
    async with open_channel(config.store_address) as channel:
        store = AdapterStore(channel, timeout_s=config.store_timeout_s)
        servicer = SchedulerServicer(dispatcher, schedule, store, sealer, boot_clock_s)
        host.add(add_SchedulerServiceServicer_to_server, servicer, "edgelora.v1.SchedulerService")
        async with host.serving(), asyncio.TaskGroup() as group:
            tasks = [group.create_task(dispatcher.run())]
            for worker in roster.all():
                health = WorkerHealth(worker, dispatcher.set_ready, heartbeat_s=config.heartbeat_s)
                tasks.append(group.create_task(health.run()))
            await host.set_ready(True)
            await host.wait_for_stop()
            dispatcher.refuse_all(
                ServiceUnavailableError("the scheduler is stopping: try again", retry_after_s=1.0)
            )
            for task in tasks:
                task.cancel()


if __name__ == "__main__":
    run_service("scheduler", main)
