"""The parts of the store, put together over one directory."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from edgelora.errors import EdgeLoraError
from services.adapter_store.arrivals import Arrivals
from services.adapter_store.bases import ServedBases
from services.adapter_store.candidates import Candidates
from services.adapter_store.config import PREFIX, AdapterStoreConfig
from services.adapter_store.ended_registration import RegistrationObserver
from services.adapter_store.fair_turns import FairTurns
from services.adapter_store.flash.storage import Storage
from services.adapter_store.flash.tier import FlashTier
from services.adapter_store.forecast.calendar import Calendar, parse_holidays
from services.adapter_store.forecast.habit_store import HabitStore
from services.adapter_store.forecast.settings import WarmUpSettings
from services.adapter_store.forecast.warm_up import WarmUp
from services.adapter_store.library import AdapterLibrary
from services.adapter_store.library_head import LibraryHead
from services.adapter_store.registration import RegistrationDesk
from services.adapter_store.registry.writer import AdapterQuota
from services.adapter_store.remote_packages import open_packages
from services.adapter_store.residency import Residency
from services.adapter_store.threads import in_thread
from services.adapter_store.tiers import Tiers
from services.adapter_store.upload import UploadArea, storage_errors
from services.adapter_store.usage import UsageLedger
from services.adapter_store.verification.verifier import Verifier
from services.adapter_store.warming import Warming
from services.chassis.logs import get_logger
from services.chassis.sealing import Sealer
from services.chassis.settings import ConfigError

_USAGE_PERIOD_S = 60.0


@dataclass(frozen=True, slots=True)
class Store:
    """What the servicer needs."""

    library: AdapterLibrary
    candidates: Candidates
    arrivals: Arrivals
    tiers: Tiers
    warming: Warming
    head: LibraryHead


@asynccontextmanager
async def open_store(
    config: AdapterStoreConfig,
    bases: ServedBases,
    storage: Storage,
    residency: Residency,
    verifier: Verifier,
    sealer: Sealer,
    *,
    unix_clock_s: Callable[[], float],
    boot_clock_s: Callable[[], float],
    observe: RegistrationObserver | None = None,
) -> AsyncIterator[Store]:
    """Puts a store together; writes what it counted now and then, and at the end."""
    decoder = None if bases.decoder is None else bases.decoder.digest
    # Registry and blobs change together, one change at a time.
    changing = asyncio.Lock()
    ledger = UsageLedger(storage.reader.usage())
    flash = FlashTier(
        storage.blobs,
        storage.writer,
        ledger,
        budget_bytes=config.flash_budget_bytes,
        min_residency_s=config.flash_min_residency_s,
        held=lambda: residency.held(boot_clock_s()),
        busy=lambda: residency.busy(boot_clock_s()),
        unix_clock_s=unix_clock_s,
    )
    desk = RegistrationDesk(
        bases=bases,
        registry=storage.writer,
        flash=flash,
        verifier=verifier,
        turns=FairTurns(config.max_concurrent_verifications),
        changing=changing,
        default_quota=AdapterQuota(max_adapters=config.max_adapters_per_tenant),
        unix_clock_s=unix_clock_s,
        observe=observe,
    )
    uploads = UploadArea(
        storage.staging,
        max_adapter_bytes=config.max_adapter_bytes,
        max_uploads=config.max_concurrent_uploads,
        min_free_bytes=config.min_free_bytes,
    )
    uploads.sweep()
    library = AdapterLibrary(
        bases=bases,
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
    candidates = Candidates(storage.reader, residency, decoder, boot_clock_s)
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
            except Exception as error:  # noqa: BLE001 - a failed turn must not be the last
                # Counters only: the next turn writes what changes from now on.
                get_logger().warning("usage_not_written", error=type(error).__name__)

    encoded_for = decoder if verifier.is_encoding else None
    async with open_packages(config, encoded_for=encoded_for) as packages:
        arrivals = Arrivals(
            reserved_names=bases.names,
            uploads=uploads,
            packages=packages,
            flash=flash,
            desk=desk,
            ledger=ledger,
        )
        with _open_forecast(config, unix_clock_s, boot_clock_s) as forecast:
            warming = Warming(
                forecast,
                bases=bases,
                registry=storage.reader,
                residency=residency,
                flash=flash,
                arrivals=arrivals,
                changing=changing,
                sealer=sealer,
                boot_clock_s=boot_clock_s,
            )
            tasks = [asyncio.create_task(keep_usage()), asyncio.create_task(warming.run())]
            try:
                yield Store(
                    library,
                    candidates,
                    arrivals,
                    tiers,
                    warming,
                    LibraryHead(storage.reader, ledger),
                )
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await arrivals.close()
                with suppress(EdgeLoraError, sqlite3.Error):
                    await write_usage()


@contextmanager
def _open_forecast(
    config: AdapterStoreConfig,
    unix_clock_s: Callable[[], float],
    boot_clock_s: Callable[[], float],
) -> Iterator[WarmUp | None]:
    if not config.has_warm_up:
        yield None
        return
    with closing(HabitStore(config.directory)) as habits:
        yield WarmUp(
            habits,
            _calendar(config),
            key=config.seal_key,
            settings=WarmUpSettings(
                bytes_per_hour=config.warm_up_bytes_per_hour,
                joules_per_hour=config.warm_up_joules_per_hour,
            ),
            unix_clock_s=unix_clock_s,
            boot_clock_s=boot_clock_s,
        )


def _calendar(config: AdapterStoreConfig) -> Calendar:
    zone = holidays = None
    if config.time_zone is not None:
        try:
            zone = ZoneInfo(config.time_zone)
        except (KeyError, ValueError, OSError):
            raise ConfigError(
                f"{PREFIX}TIME_ZONE is no time zone this system knows: "
                "give one such as Europe/Berlin, or leave it out"
            ) from None
    if config.holidays_file is not None:
        try:
            holidays = parse_holidays(config.holidays_file.read_text("utf-8"))
        except (ValueError, OSError) as error:
            raise ConfigError(f"{PREFIX}HOLIDAYS_FILE can not be read: {error}") from error
    return Calendar(zone, holidays)
