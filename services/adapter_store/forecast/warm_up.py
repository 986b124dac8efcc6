"""Forecast warm-up as the store uses it: tell it of uses, ask it what to move closer.

All methods but `save`, `run`, `set_enabled` and `forget` are quick and meant for the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from services.adapter_store.forecast.budget import Budget, Spending
from services.adapter_store.forecast.calendar import Calendar
from services.adapter_store.forecast.flash_plan import FlashShelf, plan_flash
from services.adapter_store.forecast.habit_book import HabitBook, Now
from services.adapter_store.forecast.habit_store import HabitStore
from services.adapter_store.forecast.life_clock import LifeClock
from services.adapter_store.forecast.memory_plan import WorkerSlots, plan_memory
from services.adapter_store.forecast.moves import Move, Stored
from services.adapter_store.forecast.settings import TierCosts, WarmUpSettings
from services.adapter_store.threads import in_thread
from services.chassis.logs import get_logger

SAVE_INTERVAL_S = 30.0
START_S = 600.0
"""How long after a start the device is taken to be about to be used."""
QUIET_S = 60.0
"""Restores wait until nothing was used or started for so long: verifying and encoding take the
processor from whoever is waiting for an answer."""
_LOAD_PATIENCE_S = 30.0
_RESTORE_PATIENCE_S = 600.0
_MAX_FORECASTS = 10
_SAVED_AT_ONCE = 8
_MAX_LIFE_DAYS = 100_000.0
_HASH_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterForecast:
    """How likely an adapter is to be used soon, and why."""

    digest: str
    probability: float
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpState:
    """What is known of a tenant."""

    is_enabled: bool
    num_uses: int
    forecasts: Sequence[AdapterForecast]


class WarmUp:
    """The habits of a node, and what follows from them."""

    def __init__(
        self,
        store: HabitStore,
        calendar: Calendar,
        *,
        key: bytes,
        settings: WarmUpSettings,
        unix_clock_s: Callable[[], float],
        boot_clock_s: Callable[[], float],
    ) -> None:
        """Goes on with what the store holds. `key` turns users into hashes; 32 bytes or more."""
        self._store = store
        self._calendar = calendar
        self._key = hashlib.blake2b(key, person=b"edgelora-habits").digest()
        self._settings = settings
        self._unix_clock_s = unix_clock_s
        self._boot_clock_s = boot_clock_s
        self._costs = TierCosts()
        self._budget = Budget(settings.bytes_per_hour, settings.joules_per_hour)
        self._book = HabitBook(calendar, settings.horizon_minutes)
        self._off_hashes = store.off()
        self._off: dict[str, bool] = {}
        """Tenant -> whether it is off; filled as tenants appear."""
        self._started_s = self._used_s = boot_clock_s()
        self._coming: dict[str, float] = {}
        """Digests on their way into a slot, with when that was asked (boot clock)."""
        self._restoring: dict[str, float] = {}
        self._has_spent = False
        """Since the last save: the budget outlives the process too."""
        self._spent = asyncio.Event()
        self._writing = asyncio.Lock()
        self._life = self._load()

    def note_start(self) -> None:
        """A worker came up with empty slots: the device is probably about to be used."""
        self._started_s = self._boot_clock_s()

    def note_use(self, tenant_id: str, user: str, digest: str) -> None:
        """A tenant's user, who may be empty, uses an adapter."""
        self._used_s = self._boot_clock_s()
        if self._is_off(tenant_id):
            return
        self._book.note((tenant_id, self._hash(tenant_id, user)), digest, self._now())

    def note_load(self, load_s: float) -> None:
        """A worker took so long from asking for an adapter on flash until it could be used."""
        self._costs = self._costs.after_load(load_s)

    def note_restore(self, restore_s: float) -> None:
        """Bringing a package to flash took so long."""
        self._costs = self._costs.after_restore(restore_s)

    def plan_memory(self, worker: WorkerSlots, stored: Stored) -> list[Move]:
        """What a worker that just reported should load. What is returned counts as asked."""
        now = self._now()
        boot_s = self._boot_clock_s()
        coming = _still(self._coming, boot_s, _LOAD_PATIENCE_S)
        moves = plan_memory(
            self._book.soon(now, self._off_tenants(), is_after_start=self._is_after_start(boot_s)),
            WorkerSlots(
                num_slots=worker.num_slots,
                slots=worker.slots,
                kept=worker.kept,
                elsewhere={*worker.elsewhere, *coming},
            ),
            stored,
            now_s=boot_s,
            costs=self._costs,
            settings=self._settings,
            budget=self._budget,
        )
        coming.update((move.digest, boot_s) for move in moves)
        self._coming = coming
        self._note_spending(moves)
        return moves

    def plan_flash(self, shelf: FlashShelf, stored: Stored) -> list[Move]:
        """What to bring from remotes to flash. What is returned counts as asked."""
        now = self._now()
        boot_s = self._boot_clock_s()
        if boot_s - max(self._started_s, self._used_s) < QUIET_S:
            return []
        restoring = _still(self._restoring, boot_s, _RESTORE_PATIENCE_S)
        moves = plan_flash(
            self._book.within_a_day(now, self._off_tenants()),
            FlashShelf(
                free_bytes=shelf.free_bytes,
                evictable=shelf.evictable,
                min_residency_s=shelf.min_residency_s,
                coming={*shelf.coming, *restoring},
            ),
            stored,
            now_s=self._unix_clock_s(),
            costs=self._costs,
            settings=self._settings,
            budget=self._budget,
        )
        restoring.update((move.digest, boot_s) for move in moves)
        self._restoring = restoring
        self._note_spending(moves)
        return moves

    def state(self, tenant_id: str) -> WarmUpState:
        """What is known of a tenant, and what is expected of it now."""
        if self._is_off(tenant_id):
            return WarmUpState(
                is_enabled=False, num_uses=self._book.num_uses(tenant_id), forecasts=()
            )
        now = self._now()
        chances = self._book.tenant_chances(
            tenant_id, now, is_after_start=self._is_after_start(self._boot_clock_s())
        )
        return WarmUpState(
            is_enabled=True,
            num_uses=self._book.num_uses(tenant_id),
            forecasts=[
                AdapterForecast(
                    digest=chance.digest,
                    probability=chance.soon,
                    reasons=self._book.reasons(tenant_id, chance.digest, now),
                )
                for chance in chances[:_MAX_FORECASTS]
            ],
        )

    def forget_adapter(self, tenant_id: str, digest: str) -> None:
        """A tenant deleted an adapter. The file follows with the next save."""
        self._book.forget_adapter(tenant_id, digest)

    async def set_enabled(self, tenant_id: str, is_enabled: bool) -> None:
        """Switches learning and forecasts of a tenant on or off; what was learnt stays.

        Raises OSError when storage fails; then it is off for now, whatever was asked.
        """
        async with self._writing:
            self._off[tenant_id] = True
            mark = {self._hash(tenant_id)}
            hashes = self._off_hashes - mark if is_enabled else self._off_hashes | mark
            if hashes != self._off_hashes:
                await in_thread(self._store.write_off, hashes)
            self._off_hashes = hashes
            self._off[tenant_id] = not is_enabled

    async def forget(self, tenant_id: str) -> None:
        """Removes all that was learnt of a tenant, from memory and from the file's bytes.

        Whether it is switched off stays. Raises sqlite3.Error or OSError when storage fails; then
        it has to be repeated.
        """
        async with self._writing:
            self._book.forget_tenant(tenant_id)
            await in_thread(self._store.forget, tenant_id)

    async def save(self) -> None:
        """Writes what changed. When storage fails it is kept in memory and tried again later."""
        async with self._writing:
            while True:
                changed, removed = self._book.take_changed(_SAVED_AT_ONCE)
                if not (changed or removed or self._has_spent):
                    return
                self._has_spent = False
                documents = {key: json.dumps(document) for key, document in changed.items()}
                try:
                    await in_thread(self._store.write, documents, removed, self._state())
                except sqlite3.Error as error:
                    self._book.put_back([*changed, *removed])
                    get_logger().warning("habits_not_saved", error=type(error).__name__)
                    self._has_spent = True
                    return

    async def run(self) -> None:
        """Saves now and then, and at once what was spent, until cancelled; then once more."""
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._spent.wait(), SAVE_INTERVAL_S)
                self._spent.clear()
                await self.save()
        finally:
            await self.save()

    def _note_spending(self, moves: list[Move]) -> None:
        if moves:
            self._has_spent = True
            self._spent.set()

    def _load(self) -> LifeClock:
        state = self._store.state()
        days = state.get("days", 0.0)
        if not 0.0 <= days <= _MAX_LIFE_DAYS:
            days = 0.0
        for key, text in self._store.habits():
            try:
                self._book.load(key, json.loads(text), days)
            except (ValueError, TypeError, KeyError, AttributeError, IndexError):
                self._book.put_back([key])  # not known, so it is removed from the file
        self._book.order()
        if "bytes_left" in state and "joules_left" in state:
            self._budget.restore(Spending(state["bytes_left"], state["joules_left"]))
        return LifeClock(days, state.get("unix_s"))

    def _state(self) -> dict[str, float]:
        self._now()
        return {
            "days": self._life.days,
            "unix_s": self._unix_clock_s(),
            "bytes_left": self._budget.left.size_bytes,
            "joules_left": self._budget.left.joules,
        }

    def _now(self) -> Now:
        unix_s = self._unix_clock_s()
        elapsed_s = self._life.advance(unix_s, self._boot_clock_s())
        if elapsed_s:
            self._budget.refill(elapsed_s, len(self._book.tenants))
        return Now(self._life.days, self._calendar.moment(unix_s))

    def _off_tenants(self) -> set[str]:
        return {tenant_id for tenant_id in self._book.tenants if self._is_off(tenant_id)}

    def _is_after_start(self, boot_s: float) -> bool:
        return boot_s - self._started_s < START_S

    def _is_off(self, tenant_id: str) -> bool:
        known = self._off.get(tenant_id)
        if known is None:
            known = self._off[tenant_id] = self._hash(tenant_id) in self._off_hashes
        return known

    def _hash(self, *names: str) -> str:
        text = "\0".join(names).encode()
        return hashlib.blake2b(text, key=self._key, digest_size=_HASH_BYTES).hexdigest()


def _still(asked: dict[str, float], now_s: float, patience_s: float) -> dict[str, float]:
    return {digest: at_s for digest, at_s in asked.items() if now_s - at_s < patience_s}
