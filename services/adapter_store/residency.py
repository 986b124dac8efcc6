"""Which adapters lie in which worker's slots, as the workers last said. Pure: the clock is given.

The workers own the truth; a report replaces everything known of its worker. A worker that has not
reported for a while is taken to hold nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from edgelora.errors import PermissionDeniedError
from services.adapter_store.registry.manifest import Task

EXPIRY_S = 15.0


class AdapterPlace(Enum):
    """How far an adapter is from running."""

    REGISTERED = "registered"
    """On storage only."""
    LOADING = "loading"
    RESIDENT = "resident"
    FAILED = "failed"
    """Refused by a worker, and nowhere resident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReport:
    """One adapter in a worker's slot."""

    digest: str
    num_references: int
    """Running sequences that use it; above 0 it is pinned."""
    last_used_s: float
    """Boot clock."""
    is_loading: bool
    size_bytes: int = 0
    """What it takes in its slot; 0 where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """A worker's full state at one moment."""

    worker: str
    incarnation: int
    """Larger for each new process of the same worker: its start on the node's boot clock, in ns."""
    reported_at_s: float
    """Boot clock."""
    slots: Mapping[str, SlotReport]
    """By digest."""
    refused: frozenset[str]
    num_slots: int = 0
    memory_bytes: int = 0
    """Of its slots, in use."""
    memory_budget_bytes: int = 0
    task: Task = Task.GENERATE
    """What the worker does."""


class Residency:
    """The last report of every worker."""

    def __init__(self) -> None:
        self._reports: dict[str, WorkerReport] = {}

    def report(self, report: WorkerReport) -> bool:
        """Takes a report; returns whether it changes which adapters lie where.

        Raises PermissionDeniedError when a newer process of the same worker is alive.
        """
        known = self._reports.get(report.worker)
        if known is not None and report.incarnation < known.incarnation:
            # Also when the newer one fell silent: a stale process never comes back.
            raise PermissionDeniedError(
                "a newer process of this worker has reported: this one has to stop",
                field="incarnation",
            )
        self._reports[report.worker] = report
        return known is None or _layout(known) != _layout(report)

    def live(self, now_s: float) -> list[WorkerReport]:
        """The reports that still count, by worker."""
        return [
            self._reports[name]
            for name in sorted(self._reports)
            if now_s - self._reports[name].reported_at_s <= EXPIRY_S
        ]

    def place(self, digest: str, now_s: float) -> AdapterPlace:
        """Where an adapter is, taking the best of all workers."""
        reports = self.live(now_s)
        slots = [report.slots[digest] for report in reports if digest in report.slots]
        if any(not slot.is_loading for slot in slots):
            return AdapterPlace.RESIDENT
        if slots:
            return AdapterPlace.LOADING
        if any(digest in report.refused for report in reports):
            return AdapterPlace.FAILED
        return AdapterPlace.REGISTERED

    def held(self, now_s: float) -> set[str]:
        """Every digest in a slot, or on its way there."""
        return {digest for report in self.live(now_s) for digest in report.slots}

    def ready(self, now_s: float) -> set[str]:
        """Every digest in a slot that could serve at once."""
        return {
            slot.digest
            for report in self.live(now_s)
            for slot in report.slots.values()
            if not slot.is_loading
        }

    def busy(self, now_s: float) -> set[str]:
        """Those of `held` that something runs with, or that are on their way."""
        return {
            slot.digest
            for report in self.live(now_s)
            for slot in report.slots.values()
            if slot.num_references or slot.is_loading
        }

    def counts(self, digests: Sequence[str], now_s: float) -> dict[str, int]:
        """Worker -> how many of the digests it holds, for those that hold any."""
        counts = {
            report.worker: sum(
                digest in report.slots and not report.slots[digest].is_loading for digest in digests
            )
            for report in self.live(now_s)
        }
        return {worker: count for worker, count in counts.items() if count}


def _layout(report: WorkerReport) -> tuple[object, ...]:
    return (
        report.incarnation,
        frozenset((slot.digest, slot.is_loading) for slot in report.slots.values()),
        report.refused,
    )
