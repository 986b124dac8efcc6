"""The policies a replay compares: none, the most recent, the forecast, and one that knows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.habit_traces import HOLIDAYS, ZONE, Use
from bench.warmup_replay import TENANT
from services.adapter_store.forecast.budget import Budget
from services.adapter_store.forecast.calendar import Calendar, Holidays
from services.adapter_store.forecast.chances import Chance
from services.adapter_store.forecast.flash_plan import FlashShelf, plan_flash
from services.adapter_store.forecast.habit_store import HabitStore
from services.adapter_store.forecast.memory_plan import WorkerSlots, plan_memory
from services.adapter_store.forecast.moves import Move, Stored
from services.adapter_store.forecast.settings import TierCosts, WarmUpSettings
from services.adapter_store.forecast.warm_up import WarmUp


class NoWarmUp:
    """Adapters come when a request needs them; the least recently used go."""

    def wake(self, now_s: float) -> None:
        """Does nothing."""

    def note_use(self, use: Use, digest: str) -> None:
        """Does nothing."""

    def plan_memory(self, now_s: float, worker: WorkerSlots, stored: Stored) -> list[Move]:
        """Nothing."""
        return []

    def plan_flash(self, now_s: float, shelf: FlashShelf, stored: Stored) -> list[Move]:
        """Nothing."""
        return []


class ForecastPolicy:
    """The adapter store's own, with a simulated clock."""

    def __init__(self, directory: Path, costs: TierCosts, settings: WarmUpSettings) -> None:
        self._now_s = 0.0
        self._store = HabitStore(directory)
        self._warm_up = WarmUp(
            self._store,
            Calendar(ZONE, Holidays(frozenset[dt.date](HOLIDAYS))),
            key=b"a key of the benchmark, 32 bytes",
            settings=settings,
            unix_clock_s=lambda: self._now_s,
            boot_clock_s=lambda: self._now_s,
        )
        for _ in range(100):  # as a node that has measured its tiers
            self._warm_up.note_load(costs.load_s)
            self._warm_up.note_restore(costs.restore_s)

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def wake(self, now_s: float) -> None:
        """A worker came up."""
        self._now_s = now_s
        self._warm_up.note_start()

    def note_use(self, use: Use, digest: str) -> None:
        """Learns."""
        self._now_s = use.unix_s
        self._warm_up.note_use(TENANT, use.user, digest)

    def plan_memory(self, now_s: float, worker: WorkerSlots, stored: Stored) -> list[Move]:
        """What it forecasts."""
        self._now_s = now_s
        return self._warm_up.plan_memory(worker, stored)

    def plan_flash(self, now_s: float, shelf: FlashShelf, stored: Stored) -> list[Move]:
        """What it forecasts."""
        self._now_s = now_s
        return self._warm_up.plan_flash(shelf, stored)


class RankedPolicy:
    """The store's planner and budget, with adapters ranked by something else than a forecast."""

    def __init__(
        self, rank: Callable[[float], Sequence[str]], costs: TierCosts, settings: WarmUpSettings
    ) -> None:
        """`rank`: from the time to digests, likeliest first."""
        self._rank = rank
        self._costs = costs
        self._settings = settings
        self._budget = Budget(settings.bytes_per_hour, settings.joules_per_hour)
        self._last_s: float | None = None

    def wake(self, now_s: float) -> None:
        """Does nothing."""

    def note_use(self, use: Use, digest: str) -> None:
        """Does nothing."""

    def plan_memory(self, now_s: float, worker: WorkerSlots, stored: Stored) -> list[Move]:
        """The best ranked."""
        return plan_memory(
            self._chances(now_s),
            worker,
            stored,
            now_s=now_s,
            costs=self._costs,
            settings=self._settings,
            budget=self._budget,
        )

    def plan_flash(self, now_s: float, shelf: FlashShelf, stored: Stored) -> list[Move]:
        """The best ranked."""
        return plan_flash(
            self._chances(now_s),
            shelf,
            stored,
            now_s=now_s,
            costs=self._costs,
            settings=self._settings,
            budget=self._budget,
        )

    def _chances(self, now_s: float) -> list[Chance]:
        if self._last_s is not None:
            self._budget.refill(now_s - self._last_s, 1)
        self._last_s = now_s
        return [
            Chance(
                tenant_id=TENANT, digest=digest, soon=1 / (1 + place), within_a_day=1 / (1 + place)
            )
            for place, digest in enumerate(self._rank(now_s))
        ]


class MostRecent(RankedPolicy):
    """Warms what was used last: what least-recently-used caching would have kept."""

    def __init__(self, costs: TierCosts, settings: WarmUpSettings) -> None:
        self._used: dict[str, None] = {}
        super().__init__(lambda now_s: list(reversed(self._used)), costs, settings)

    def note_use(self, use: Use, digest: str) -> None:
        """Moves an adapter to the front."""
        self._used.pop(digest, None)
        self._used[digest] = None


class Oracle(RankedPolicy):
    """Warms what will be used next; only budgets and time stand in its way."""

    def __init__(
        self,
        uses: Sequence[Use],
        digests: Sequence[str],
        costs: TierCosts,
        settings: WarmUpSettings,
    ) -> None:
        self._uses = uses
        self._digests = digests
        self._next = 0
        super().__init__(self._coming, costs, settings)

    def note_use(self, use: Use, digest: str) -> None:
        """Goes on."""
        self._next += 1

    def _coming(self, now_s: float) -> list[str]:
        order: dict[str, None] = {}
        for use in self._uses[self._next : self._next + 200]:
            order.setdefault(self._digests[use.adapter], None)
        return list(order)
