"""The parts of the store, put together over one directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from edgelora.errors import EdgeLoraError
from services.adapter_store.arrivals import Arrivals
from services.adapter_store.config import AdapterStoreConfig
from services.adapter_store.flash_tier import FlashTier
from services.adapter_store.library import AdapterLibrary
from services.adapter_store.registration import RegistrationDesk
from services.adapter_store.remote_packages import open_packages
from services.adapter_store.residency import Residency
from services.adapter_store.storage import Storage
from services.adapter_store.threads import in_thread
from services.adapter_store.tiers import Tiers
from services.adapter_store.upload import UploadArea, storage_errors
from services.adapter_store.usage import UsageLedger
from services.adapter_store.verification import Verifier
from services.chassis.base_model import BaseModel
from services.chassis.logs import get_logger

_USAGE_PERIOD_S = 60.0


@dataclass(frozen=True, slots=True)
class Store:
    """What the servicer needs."""

    library: AdapterLibrary
    arrivals: Arrivals
    tiers: Tiers


@asynccontextmanager
async def open_store(
    config: AdapterStoreConfig,
    base: BaseModel,
    storage: Storage,
    residency: Residency,
    verifier: Verifier,
    *,
    unix_clock_s: Callable[[], float],
    boot_clock_s: Callable[[], float],
) -> AsyncIterator[Store]:
    """Puts a store together; writes what it counted now and then, and at the end."""
    # Registry and blobs change together, one change at a time.
    changing = asyncio.Lock()
    ledger = UsageLedger(storage.reader.usage())
    flash = FlashTier(
        storage.blobs,
        storage.writer,
        ledger,
        budget_bytes=config.flash_budget_bytes,
        min_residency_s=config.flash_min_residency_s,
        in_use=lambda: residency.held(boot_clock_s()),
        unix_clock_s=unix_clock_s,
    )
    desk = RegistrationDesk(
        base=base,
        registry=storage.writer,
        flash=flash,
        verifier=verifier,
        changing=changing,
        max_adapters_per_tenant=config.max_adapters_per_tenant,
        unix_clock_s=unix_clock_s,
    )
    uploads = UploadArea(
        storage.staging,
        max_adapter_bytes=config.max_adapter_bytes,
        max_uploads=config.max_concurrent_uploads,
        min_free_bytes=config.min_free_bytes,
    )
    uploads.sweep()
    library = AdapterLibrary(
        base=base,
        reader=storage.reader,
        writer=storage.writer,
        blobs=storage.blobs,
        flash=flash,
        residency=residency,
        ledger=ledger,
        changing=changing,
        max_pinned_per_tenant=config.max_pinned_per_tenant,
        unix_clock_s=unix_clock_s,
        boot_clock_s=boot_clock_s,
    )
    tiers = Tiers(
        ledger=ledger,
        flash=flash,
        residency=residency,
        registry=storage.reader,
        boot_clock_s=boot_clock_s,
    )

    async def write_usage() -> None:
        async with changing:
            with storage_errors():
                await in_thread(storage.writer.write_usage, ledger.take_changed())

    async def keep_usage() -> None:
        while True:
            await asyncio.sleep(_USAGE_PERIOD_S)
            try:
                await write_usage()
            except EdgeLoraError:
                # Counters only: the next turn writes what changes from now on.
                get_logger().warning("usage_not_written")

    async with open_packages(config) as packages:
        arrivals = Arrivals(
            reserved_name=base.name,
            uploads=uploads,
            packages=packages,
            flash=flash,
            desk=desk,
            ledger=ledger,
        )
        keeper = asyncio.create_task(keep_usage())
        try:
            yield Store(library, arrivals, tiers)
        finally:
            keeper.cancel()
            await arrivals.close()
            with suppress(EdgeLoraError):
                await write_usage()
