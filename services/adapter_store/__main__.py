"""Starts the adapter store: settings, objects, serve."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from edgelora.v1.adapter_store_service_pb2_grpc import add_AdapterStoreServiceServicer_to_server
from services.adapter_store.bases import ServedBases
from services.adapter_store.config import PREFIX, AdapterStoreConfig
from services.adapter_store.flash.storage import open_storage
from services.adapter_store.hot_index import HotIndex
from services.adapter_store.readiness import keep_ready
from services.adapter_store.residency import Residency
from services.adapter_store.servicer import AdapterStoreServicer
from services.adapter_store.store import open_store
from services.adapter_store.verification.start import open_verifier
from services.chassis.interceptor import DeadlinePolicy
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost, run_service
from services.chassis.settings import ConfigError

if TYPE_CHECKING:
    from services.adapter_store.metrics import StoreMetrics

# The gateway's own deadline ends an installation, which may take longer than any other call.
_DEADLINES = DeadlinePolicy(
    unbounded_methods=frozenset({"/edgelora.v1.AdapterStoreService/InstallAdapter"})
)


async def main(environ: Mapping[str, str]) -> None:
    """Serves until SIGTERM or SIGINT."""
    config = AdapterStoreConfig.from_env(environ)
    try:
        bases = ServedBases.load(config.model_directory, config.encoder_model_directory)
        sealer = Sealer(config.seal_key)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    residency = Residency()
    metrics = _metrics(config)
    with open_storage(config.directory) as storage:
        index = _hot_index(config, residency)
        async with (
            metrics.serving() if metrics else nullcontext(),
            open_verifier(config, bases) as verifier,
            open_store(
                config,
                bases,
                storage,
                residency,
                verifier,
                sealer,
                unix_clock_s=time.time,
                boot_clock_s=boot_clock_s,
                observe=metrics.note_registration if metrics else None,
            ) as store,
        ):
            if metrics:
                metrics.watch(store.tiers, index)
            host = ServiceHost(
                [config.address],
                deadlines=_DEADLINES,
                observe=metrics.calls.note_end if metrics else None,
            )
            servicer = AdapterStoreServicer(
                store,
                sealer,
                boot_clock_s,
                index.note_change if index else lambda: None,
            )
            host.add(
                add_AdapterStoreServiceServicer_to_server,
                servicer,
                "edgelora.v1.AdapterStoreService",
            )
            if index is not None:
                store.library.take_hints(await index.hints(boot_clock_s()))
            async with host.serving(), asyncio.TaskGroup() as group:
                tasks = [group.create_task(keep_ready(store.library.probe, host.set_ready))]
                if index is not None:
                    tasks.append(group.create_task(index.run()))
                await host.wait_for_stop()
                for task in tasks:
                    task.cancel()


def _metrics(config: AdapterStoreConfig) -> StoreMetrics | None:
    if config.metrics_address is None:
        return None
    from services.adapter_store.metrics import StoreMetrics  # takes 4 MB

    return StoreMetrics(config.metrics_address)


def _hot_index(config: AdapterStoreConfig, residency: Residency) -> HotIndex | None:
    if config.redis_url is None:
        return None
    try:
        return HotIndex(
            config.redis_url, config.redis_password, lambda: residency.live(boot_clock_s())
        )
    except ValueError as error:
        raise ConfigError(f"{PREFIX}REDIS_URL is not a Redis address") from error


if __name__ == "__main__":
    run_service("adapter_store", main)
