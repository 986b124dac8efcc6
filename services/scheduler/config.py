"""Settings of the scheduler, read from EDGELORA_SCHEDULER_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.chassis.settings import ConfigError, Settings
from services.scheduler.pressure.settings import PressureSettings
from services.scheduler.request import Priority
from services.scheduler.request_queue import QueueLimits
from services.scheduler.routing.settings import RoutingSettings

PREFIX = "EDGELORA_SCHEDULER_"
_MAX_PLACES = 4096
_MAX_WAITING = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """What the scheduler needs to know to start."""

    address: str
    """ADDRESS: where it listens, `unix:/path` or `host:port`."""
    metrics_address: str | None
    """METRICS_ADDRESS: `host:port` where a Prometheus may read; absent: nowhere."""
    store_address: str
    """STORE_ADDRESS: the adapter store."""
    monitor_address: str
    """MONITOR_ADDRESS: the monitor."""
    workers: Mapping[str, str]
    """WORKERS: `name=address,...`, the workers that generate; needed without ENCODER_WORKERS."""
    encoder_workers: Mapping[str, str]
    """ENCODER_WORKERS: `name=address,...`, the workers that classify and embed, under names of
    their own; absent: none."""
    seal_key: bytes = field(repr=False)
    """SEAL_KEY_FILE: file with the node's seal key, one line of at least 32 characters."""
    max_running_per_worker: int
    """MAX_RUNNING_PER_WORKER: places of each worker that generates, default 16."""
    max_running_per_encoder: int
    """MAX_RUNNING_PER_ENCODER: places of each encoder worker, default 64: what waits for its next
    step."""
    limits: QueueLimits
    """MAX_WAITING_INTERACTIVE, _BACKGROUND, _BATCH (default 256 each): most waiting requests of a
    class. MAX_WAITING_PER_TENANT (default 64): of one tenant in one class. BACKGROUND_AGING (5s),
    BATCH_AGING (15s): longest time without a grant before the class goes first once.
    RETRY_AFTER (1s): the least a caller is told to wait whom a full queue refused."""
    lease_s: float
    """LEASE: how long a place is held without Renew, default 10s: what a gateway that was killed
    had granted is free again after that."""
    ticket_s: float
    """TICKET: how long a worker and the store take a ticket, default 30s: as long as an adapter
    may take to come from its remote."""
    load_factor: float
    """LOAD_FACTOR: how far above the mean adapters may pull a worker's load, default 1.25."""
    no_worker_limit_s: float
    """NO_WORKER_LIMIT: how long requests wait for a first ready worker, default 5s."""
    store_timeout_s: float
    """STORE_TIMEOUT: longest wait for the adapter store, default 2s."""
    heartbeat_s: float
    """HEARTBEAT: how often a worker must show that it does not hang, default 1s."""
    pressure: PressureSettings
    """What the device's state takes away."""
    routing: RoutingSettings
    """How adapters are chosen for requests that name none."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> SchedulerConfig:
        """Reads the settings. Raises ConfigError with a line for each mistake."""
        settings = Settings(environ, PREFIX)
        encoders = settings.text("ENCODER_WORKERS", "")

        def max_waiting(name: str) -> int:
            return settings.integer(name, 256, low=1, high=_MAX_WAITING)

        config = cls(
            address=settings.text("ADDRESS"),
            metrics_address=settings.listen_address("METRICS_ADDRESS"),
            store_address=settings.text("STORE_ADDRESS"),
            monitor_address=settings.text("MONITOR_ADDRESS"),
            workers=_workers("WORKERS", settings.text("WORKERS", "" if encoders else None)),
            encoder_workers=_workers("ENCODER_WORKERS", encoders),
            seal_key=settings.secret_file("SEAL_KEY_FILE"),
            max_running_per_worker=settings.integer(
                "MAX_RUNNING_PER_WORKER", 16, low=1, high=_MAX_PLACES
            ),
            max_running_per_encoder=settings.integer(
                "MAX_RUNNING_PER_ENCODER", 64, low=1, high=_MAX_PLACES
            ),
            limits=QueueLimits(
                max_waiting={
                    Priority.INTERACTIVE: max_waiting("MAX_WAITING_INTERACTIVE"),
                    Priority.BACKGROUND: max_waiting("MAX_WAITING_BACKGROUND"),
                    Priority.BATCH: max_waiting("MAX_WAITING_BATCH"),
                },
                max_waiting_per_tenant=settings.integer(
                    "MAX_WAITING_PER_TENANT", 64, low=1, high=_MAX_WAITING
                ),
                aging_s={
                    Priority.BACKGROUND: settings.duration_s("BACKGROUND_AGING", 5.0),
                    Priority.BATCH: settings.duration_s("BATCH_AGING", 15.0),
                },
                retry_after_s=settings.duration_s("RETRY_AFTER", 1.0),
            ),
            lease_s=settings.duration_s("LEASE", 10.0, low=0.1),
            ticket_s=settings.duration_s("TICKET", 30.0, low=0.1),
            load_factor=settings.number("LOAD_FACTOR", 1.25, low=1.0, high=1000.0),
            no_worker_limit_s=settings.duration_s("NO_WORKER_LIMIT", 5.0),
            store_timeout_s=settings.duration_s("STORE_TIMEOUT", 2.0, low=0.01),
            heartbeat_s=settings.duration_s("HEARTBEAT", 1.0, low=0.01),
            pressure=PressureSettings.read(settings),
            routing=RoutingSettings.read(settings),
        )
        settings.finish()
        if config.workers.keys() & config.encoder_workers.keys():
            raise ConfigError(
                f"{PREFIX}ENCODER_WORKERS must not use a name of {PREFIX}WORKERS: tickets name "
                "their worker"
            )
        return config


def _workers(setting: str, text: str) -> Mapping[str, str]:
    workers: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, address = (part.strip() for part in entry.partition("="))
        if not name or not address or name in workers:
            raise ConfigError(
                f"{PREFIX}{setting} must be name=address,... with each name once, "
                "for example cpu0=unix:/run/edgelora/inference.sock"
            )
        workers[name] = address
    return workers
