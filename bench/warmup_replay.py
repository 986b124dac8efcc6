"""Replays a trace of uses on a simulated device: slots, flash, remote, and a policy that warms up.

The clock is simulated, the policy is the one of the adapter store. One loader fills slots and one
transfer fills flash, and neither is interrupted: a request that comes while something is warmed
waits for it to end, then for its own. Beside a restore everything else takes twice as long.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.habit_traces import Use
from services.adapter_store.flash.eviction import EvictionCandidate
from services.adapter_store.forecast.flash_plan import FlashShelf
from services.adapter_store.forecast.memory_plan import WorkerSlots
from services.adapter_store.forecast.moves import Move, Stored, StoredAdapter
from services.adapter_store.residency import SlotReport

TENANT = "tenant"
SLEEP_AFTER_S = 7200.0
"""A device that is not used for so long sleeps, and wakes with empty slots."""
AWAKE_S = 900.0
"""It stays awake for so long after the last use."""
MEAN_GAP_S = 6.0
"""From the moment a woken device is ready until the first request, exponentially distributed."""
RESTART_EVERY_S = 7 * 86_400.0
"""It also restarts once a week at an hour when nobody is there."""
_TICKS_S = (0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""When a woken worker reports, as far as a plan may differ; and after every use."""
_MIN_RESIDENCY_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What one adapter takes; all are of the rank that was measured."""

    first_token_s: float
    """From sending a request to its first token, its adapter in a slot."""
    load_s: float
    """More when it is on flash: asking the store, checking, decoding, proving."""
    restore_s: float
    """More when it is only at its remote: the transfer, verifying and encoding it anew."""
    flash_mib: float
    package_mib: float


class Policy(Protocol):
    """What decides about warm-ups."""

    def wake(self, now_s: float) -> None:
        """The device came up with empty slots."""

    def note_use(self, use: Use, digest: str) -> None:
        """A request came."""

    def plan_memory(self, now_s: float, worker: WorkerSlots, stored: Stored) -> list[Move]:
        """What to load."""

    def plan_flash(self, now_s: float, shelf: FlashShelf, stored: Stored) -> list[Move]:
        """What to restore."""


@dataclass(slots=True)
class Outcome:
    """What came of a replay."""

    cold_s: list[float] = field(default_factory=list)
    """First responses after cold starts."""
    warm_s: list[float] = field(default_factory=list)
    """All other first tokens."""
    found: dict[str, int] = field(default_factory=lambda: {"memory": 0, "flash": 0, "remote": 0})
    """Where the first request after a cold start found its adapter."""
    moved_mib: float = 0.0
    """Ahead of use."""
    wasted_mib: float = 0.0
    """Of that, what was gone again before any use."""
    joules: float = 0.0


class Device:
    """The simulated device."""

    def __init__(
        self,
        library: Sequence[str],
        costs: Costs,
        policy: Policy,
        *,
        num_slots: int,
        num_on_flash: int,
    ) -> None:
        """`library`: digests; `num_on_flash` of them fit on flash, and at first the first do."""
        self._library = library
        self._costs = costs
        self._policy = policy
        self._num_slots = num_slots
        self._num_on_flash = num_on_flash
        self._slots: dict[str, float] = {}
        """Digest -> last used; warmed ones count from their load."""
        self._flash = dict.fromkeys(library[:num_on_flash], -math.inf)
        """Digest -> last used, or when it arrives."""
        self._unused: dict[str, float] = {}
        """Warmed into a slot and not used yet: MiB moved."""
        self._unused_flash: dict[str, float] = {}
        self._loader_free_s = 0.0
        self._remote_free_s = 0.0
        self._loads: list[Move] = []
        self._restores: list[Move] = []
        self.outcome = Outcome()

    def replay(self, uses: Sequence[Use], seed: int, *, counted_from_s: float) -> Outcome:
        """Replays the uses; responses before `counted_from_s` are lived but not counted."""
        chance = random.Random(f"gaps {seed}")
        last_s = -math.inf
        next_restart_s = uses[0].unix_s - uses[0].unix_s % 86_400 + 3 * 3600
        for use in uses:
            counted = use.unix_s >= counted_from_s
            is_cold = use.unix_s - last_s >= SLEEP_AFTER_S
            if is_cold:
                self._rest(last_s, last_s + AWAKE_S)
                while next_restart_s < use.unix_s - SLEEP_AFTER_S:
                    if next_restart_s > last_s + SLEEP_AFTER_S:
                        self._wake(next_restart_s)
                        self._rest(next_restart_s, next_restart_s + AWAKE_S)
                    next_restart_s += RESTART_EVERY_S
                wake_s = use.unix_s - chance.expovariate(1.0 / MEAN_GAP_S)
                self._wake(wake_s)
                self._rest(wake_s, use.unix_s)
            else:
                self._rest(last_s, use.unix_s)
            response_s, found = self._use(use)
            if counted:
                (self.outcome.cold_s if is_cold else self.outcome.warm_s).append(response_s)
                self.outcome.found[found] += is_cold
            last_s = use.unix_s
        self.outcome.wasted_mib += sum(self._unused.values()) + sum(self._unused_flash.values())
        return self.outcome

    def _wake(self, now_s: float) -> None:
        self.outcome.wasted_mib += sum(self._unused.values())
        self._slots.clear()
        self._unused.clear()
        self._loads.clear()
        self._restores.clear()
        self._loader_free_s = self._remote_free_s = now_s
        self._policy.wake(now_s)

    def _rest(self, start_s: float, end_s: float) -> None:
        """Time without requests: the worker reports, and what was planned is moved."""
        if start_s == -math.inf:
            return
        for tick_s in _TICKS_S:
            now_s = start_s + tick_s
            if now_s > end_s:
                break
            self._work(now_s)
            self._plan(now_s)
            # A report follows every finished load.
            while self._loads and self._loader_free_s < end_s:
                self._work(math.nextafter(self._loader_free_s, math.inf))
                if not self._loads and self._loader_free_s < end_s:
                    self._plan(self._loader_free_s)
        self._work(end_s)

    def _work(self, now_s: float) -> None:
        """Starts what the loader and the transfer come to until now."""
        while self._restores and self._remote_free_s <= now_s:
            self._restore(self._restores.pop(0))
        while self._loads and self._loader_free_s <= now_s:
            move = self._loads.pop(0)
            self._load(move)

    def _plan(self, now_s: float) -> None:
        on_way = {move.digest for move in self._loads}
        worker = WorkerSlots(
            num_slots=self._num_slots,
            slots=[
                SlotReport(digest=digest, num_references=0, last_used_s=used_s, is_loading=False)
                for digest, used_s in self._slots.items()
            ],
            kept=(),
            elsewhere=on_way,
        )
        if len(self._slots) + len(on_way) <= self._num_slots or not on_way:
            self._loads += self._policy.plan_memory(now_s, worker, self._stored)
        if not self._restores and self._remote_free_s <= now_s:
            shelf = FlashShelf(
                free_bytes=(self._num_on_flash - len(self._flash)) * _flash_bytes(self._costs),
                evictable=[
                    EvictionCandidate(
                        digest=digest,
                        size_bytes=_flash_bytes(self._costs),
                        last_used_s=used_s,
                        is_in_use=digest in self._slots,
                    )
                    for digest, used_s in self._flash.items()
                ],
                min_residency_s=_MIN_RESIDENCY_S,
            )
            self._restores += self._policy.plan_flash(now_s, shelf, self._stored)
        self._work(now_s)

    def _stored(self, tenant_id: str, digest: str) -> StoredAdapter | None:
        return StoredAdapter(
            flash_bytes=_flash_bytes(self._costs),
            is_on_flash=digest in self._flash,
            package_bytes=int(self._costs.package_mib * 2**20),
        )

    def _load(self, move: Move) -> None:
        if move.digest not in self._flash or move.digest in self._slots:
            return
        if len(self._slots) >= self._num_slots:
            gone = [digest for digest in move.evict_digests if digest in self._slots]
            if not gone:
                return
            self._leave_slot(gone[0])
        self._loader_free_s += self._costs.load_s
        self._slots[move.digest] = self._loader_free_s
        self._unused[move.digest] = self._costs.flash_mib
        self.outcome.moved_mib += self._costs.flash_mib
        self.outcome.joules += move.spending.joules

    def _restore(self, move: Move) -> None:
        if move.digest in self._flash:
            return
        for digest in move.evict_digests:
            if digest in self._flash and digest not in self._slots:
                self._leave_flash(digest)
        if len(self._flash) >= self._num_on_flash:
            return
        self._remote_free_s += self._costs.restore_s
        self._flash[move.digest] = self._remote_free_s
        self._unused_flash[move.digest] = self._costs.package_mib
        self.outcome.moved_mib += self._costs.package_mib
        self.outcome.joules += move.spending.joules

    def _use(self, use: Use) -> tuple[float, str]:
        digest = self._library[use.adapter]
        now_s = use.unix_s
        self._work(now_s)
        self._loads.clear()  # what was not begun is planned again after the request
        self._policy.note_use(use, digest)
        found = "memory"
        ready_s = now_s
        # A restore verifies and encodes on the same processor.
        slower = 2.0 if now_s < self._remote_free_s else 1.0
        if digest in self._slots:
            ready_s = max(now_s, self._slots[digest])  # it may still be on its way
        else:
            found = "flash"
            if digest not in self._flash:
                found = "remote"
                ready_s = max(now_s, self._remote_free_s) + self._costs.restore_s
                self._remote_free_s = ready_s
                self._make_flash_room()
            elif self._flash[digest] > now_s:
                found = "remote"
                ready_s = self._flash[digest]
            if len(self._slots) >= self._num_slots:
                self._leave_slot(min(self._slots, key=lambda each: self._slots[each]))
            ready_s = max(ready_s, self._loader_free_s) + slower * self._costs.load_s
            self._loader_free_s = ready_s
        self._slots[digest] = ready_s
        self._flash[digest] = now_s
        self._unused.pop(digest, None)
        self._unused_flash.pop(digest, None)
        return ready_s - now_s + slower * self._costs.first_token_s, found

    def _leave_slot(self, digest: str) -> None:
        del self._slots[digest]
        self.outcome.wasted_mib += self._unused.pop(digest, 0.0)

    def _leave_flash(self, digest: str) -> None:
        del self._flash[digest]
        self.outcome.wasted_mib += self._unused_flash.pop(digest, 0.0)

    def _make_flash_room(self) -> None:
        """As the flash tier does on demand: the least recently used goes."""
        if len(self._flash) >= self._num_on_flash:
            self._leave_flash(
                min(
                    (digest for digest in self._flash if digest not in self._slots),
                    key=lambda each: (self._flash[each], each),
                )
            )


def _flash_bytes(costs: Costs) -> int:
    return int(costs.flash_mib * 2**20)
