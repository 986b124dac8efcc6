"""A forecast on clocks that stand still until they are told to go on."""

import datetime as dt
from contextlib import contextmanager
from zoneinfo import ZoneInfo

from services.adapter_store.flash.eviction import EvictionCandidate
from services.adapter_store.forecast.calendar import Calendar, Holidays
from services.adapter_store.forecast.flash_plan import FlashShelf
from services.adapter_store.forecast.habit_store import HabitStore
from services.adapter_store.forecast.memory_plan import WorkerSlots
from services.adapter_store.forecast.moves import StoredAdapter
from services.adapter_store.forecast.settings import WarmUpSettings
from services.adapter_store.forecast.warm_up import WarmUp
from services.adapter_store.residency import SlotReport

BERLIN = ZoneInfo("Europe/Berlin")
HOLIDAYS = Holidays(frozenset({dt.date(2026, 4, 3), dt.date(2026, 4, 6)}))
CALENDAR = Calendar(BERLIN, HOLIDAYS)
MIB = 2**20


def digest(number):
    return f"sha256:{number:064x}"


def unix_s(date, hour=0, minute=0):
    year, month, day = map(int, date.split("-"))
    return dt.datetime(year, month, day, hour, minute, tzinfo=BERLIN).timestamp()


def slot(name, *, idle_s=3600.0, now_s=0.0, references=0, loading=False):
    return SlotReport(
        digest=name,
        num_references=references,
        last_used_s=now_s - idle_s,
        is_loading=loading,
    )


def worker(*slots, num_slots=4, kept=(), elsewhere=()):
    return WorkerSlots(num_slots=num_slots, slots=slots, kept=kept, elsewhere=elsewhere)


def shelf(*copies, free_bytes=0, coming=()):
    return FlashShelf(free_bytes=free_bytes, evictable=copies, min_residency_s=60.0, coming=coming)


def copy(name, *, size_bytes=2 * MIB, last_used_s=0.0, in_use=False):
    return EvictionCandidate(
        digest=name, size_bytes=size_bytes, last_used_s=last_used_s, is_in_use=in_use
    )


def on_flash(tenant_id, name):
    return StoredAdapter(flash_bytes=2 * MIB, is_on_flash=True, package_bytes=9 * MIB)


def at_remote(tenant_id, name):
    return StoredAdapter(flash_bytes=2 * MIB, is_on_flash=False, package_bytes=9 * MIB)


class Node:
    """A WarmUp and its clocks."""

    def __init__(self, directory, calendar, settings, key, now_s, boot_s):
        self.now_s = now_s
        self.boot_s = boot_s
        self.store = HabitStore(directory)
        self.warm_up = WarmUp(
            self.store,
            calendar,
            key=key,
            settings=settings,
            unix_clock_s=lambda: self.now_s,
            boot_clock_s=lambda: self.boot_s,
        )

    def pass_s(self, seconds):
        """Both clocks go on."""
        self.now_s += seconds
        self.boot_s += seconds

    def live(self, days, uses, *, tenant_id="tenant", user="user"):
        """Uses the adapters each day at their hours: hour -> adapter."""
        for _ in range(days):
            for hour in range(24):
                if hour in uses:
                    self.warm_up.note_use(tenant_id, user, uses[hour])
                self.pass_s(3600)

    def plan(self, *slots, num_slots=4):
        """What a worker is asked to load."""
        moves = self.warm_up.plan_memory(worker(*slots, num_slots=num_slots), on_flash)
        return [move.digest for move in moves]

    def forecasts(self, tenant_id="tenant"):
        """Digest -> probability."""
        return {each.digest: each.probability for each in self.warm_up.state(tenant_id).forecasts}


@contextmanager
def habit_node(
    directory,
    *,
    calendar=CALENDAR,
    settings=None,
    key=b"k" * 32,
    now_s=None,
    boot_s=1000.0,
):
    """A node that starts on Monday, 2 March 2026, at midnight in Berlin."""
    node = Node(
        directory,
        calendar,
        settings or WarmUpSettings(),
        key,
        unix_s("2026-03-02") if now_s is None else now_s,
        boot_s,
    )
    try:
        yield node
    finally:
        node.store.close()
