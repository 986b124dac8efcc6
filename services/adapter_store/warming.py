"""Acts on forecasts: tells workers what to load ahead of use, brings packages back to flash."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from edgelora.errors import EdgeLoraError, PermissionDeniedError
from edgelora.v1.ticket_pb2 import Sealed
from services.adapter_store.arrivals import Arrivals
from services.adapter_store.bases import ServedBases
from services.adapter_store.flash.tier import FlashTier
from services.adapter_store.forecast.flash_plan import FlashShelf
from services.adapter_store.forecast.memory_plan import WorkerSlots
from services.adapter_store.forecast.moves import Move, StoredAdapter
from services.adapter_store.forecast.warm_up import WarmUp, WarmUpState
from services.adapter_store.permits import seal_permit
from services.adapter_store.registry.manifest import Task
from services.adapter_store.registry.registry import Registry
from services.adapter_store.residency import Residency, WorkerReport
from services.adapter_store.threads import in_thread
from services.adapter_store.upload import storage_errors
from services.adapter_store.usage import FinishedLoad
from services.chassis.logs import get_logger
from services.chassis.sealing import Sealer

_FLASH_PERIOD_S = 30.0
SWITCHED_OFF = WarmUpState(is_enabled=False, num_uses=0, forecasts=())
"""What is told where the operator has switched warm-ups off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpWish:
    """What a worker is asked to load ahead of use."""

    digest: str
    permit: Sealed
    evict_digest: str | None
    """What may go for it, if it is idle."""


class Warming:
    """Joins the forecast to the tiers. Nothing happens where the operator switched it off."""

    def __init__(
        self,
        forecast: WarmUp | None,
        *,
        bases: ServedBases,
        registry: Registry,
        residency: Residency,
        flash: FlashTier,
        arrivals: Arrivals,
        changing: asyncio.Lock,
        sealer: Sealer,
        boot_clock_s: Callable[[], float],
    ) -> None:
        """`changing`: held while flash and registry change."""
        self._forecast = forecast
        self._bases = bases
        self._registry = registry
        self._residency = residency
        self._flash = flash
        self._arrivals = arrivals
        self._changing = changing
        self._sealer = sealer
        self._boot_clock_s = boot_clock_s
        self._incarnations: dict[str, int] = {}

    def note_use(self, tenant_id: str, user: str, digest: str) -> None:
        """A tenant's user asked for an adapter."""
        with self._isolated() as forecast:
            if forecast is not None:
                forecast.note_use(tenant_id, user, digest)

    def note_loads(self, loads: Sequence[FinishedLoad]) -> None:
        """Learns what loading takes."""
        with self._isolated() as forecast:
            if forecast is None:
                return
            for load in loads:
                stages = load.stages
                forecast.note_load(
                    stages.fetch_s + stages.check_s + stages.decode_s + stages.prove_s
                )

    def note_deletion(self, tenant_id: str, digest: str) -> None:
        """A tenant removed an adapter."""
        with self._isolated() as forecast:
            if forecast is not None:
                forecast.forget_adapter(tenant_id, digest)

    def wishes(self, report: WorkerReport) -> list[WarmUpWish]:
        """What a worker that has just reported should load."""
        with self._isolated() as forecast:
            return [] if forecast is None else self._wishes(forecast, report)
        return []

    def _wishes(self, forecast: WarmUp, report: WorkerReport) -> list[WarmUpWish]:
        if self._incarnations.get(report.worker) != report.incarnation:
            self._incarnations[report.worker] = report.incarnation
            forecast.note_start()
        elsewhere = {
            digest
            for other in self._residency.live(self._boot_clock_s())
            if other.worker != report.worker
            for digest in other.slots
        }
        moves = forecast.plan_memory(
            WorkerSlots(
                num_slots=report.num_slots,
                slots=list(report.slots.values()),
                kept=self._registry.pinned(),
                elsewhere=elsewhere | report.refused,
            ),
            partial(self._stored_for, report.task),
        )
        now_s = self._boot_clock_s()
        return [
            WarmUpWish(
                digest=move.digest,
                permit=seal_permit(
                    self._sealer,
                    tenant_id=move.tenant_id,
                    digest=move.digest,
                    worker=report.worker,
                    now_boot_s=now_s,
                ),
                evict_digest=move.evict_digests[0] if move.evict_digests else None,
            )
            for move in moves
        ]

    def state(self, tenant_id: str) -> WarmUpState:
        """What is known of a tenant, and what is expected of it now."""
        return SWITCHED_OFF if self._forecast is None else self._forecast.state(tenant_id)

    async def set(self, tenant_id: str, *, is_enabled: bool | None, forget: bool) -> WarmUpState:
        """Switches a tenant's forecasts on or off, or forgets its habits.

        Raises PermissionDeniedError when the operator has switched all of it off,
        ResourcePressureError when storage fails.
        """
        if self._forecast is None:
            if is_enabled:
                raise PermissionDeniedError(
                    "warm-ups are switched off on this node: its operator can change that",
                    field="is_enabled",
                )
            return SWITCHED_OFF
        with storage_errors():
            if is_enabled is not None:
                await self._forecast.set_enabled(tenant_id, is_enabled)
            if forget:
                await self._forecast.forget(tenant_id)
        return self.state(tenant_id)

    async def run(self) -> None:
        """Keeps what was learnt, and brings packages to flash ahead of use, until cancelled."""
        with self._isolated() as forecast:
            if forecast is None:
                return
            async with asyncio.TaskGroup() as group:
                group.create_task(forecast.run())
                group.create_task(self._keep_flash_warm(forecast))

    async def _keep_flash_warm(self, forecast: WarmUp) -> None:
        while True:
            await asyncio.sleep(_FLASH_PERIOD_S)
            try:
                for move in forecast.plan_flash(await self._shelf(), self._stored):
                    await self._restore(forecast, move)
            except (EdgeLoraError, OSError, sqlite3.Error) as error:
                get_logger().info("flash_not_warmed", error=type(error).__name__)

    @contextmanager
    def _isolated(self) -> Iterator[WarmUp | None]:
        """A defect of the forecast costs warm-ups until the next start, and no request."""
        try:
            yield self._forecast
        except Exception as error:  # noqa: BLE001 - whatever it is, adapters have to be served
            get_logger().error("forecast_failed", error=type(error).__name__)
            self._forecast = None

    async def _shelf(self) -> FlashShelf:
        async with self._changing:
            with storage_errors():
                return await in_thread(self._flash.shelf)

    async def _restore(self, forecast: WarmUp, move: Move) -> None:
        manifest = self._registry.get(move.tenant_id, move.digest)
        if manifest is None:
            return
        async with self._changing:
            with storage_errors():
                # They go when it has arrived, not before.
                await in_thread(self._flash.offer, move.evict_digests)
        forecast.note_restore(await self._arrivals.bring_to_flash(manifest))

    def _stored_for(self, task: Task, tenant_id: str, digest: str) -> StoredAdapter | None:
        """What a worker of a task can load."""
        return self._stored(tenant_id, digest, task)

    def _stored(
        self, tenant_id: str, digest: str, task: Task | None = None
    ) -> StoredAdapter | None:
        found = self._registry.find(tenant_id, digest)
        manifest = None if found is None else found[0]
        if manifest is None or manifest.content.base_digest not in self._bases.digests:
            return None
        content = manifest.content
        if task not in (None, content.task):
            return None
        return StoredAdapter(
            flash_bytes=content.flash_bytes,
            is_on_flash=content.is_on_flash,
            package_bytes=None if manifest.package is None else content.weights_bytes,
        )
