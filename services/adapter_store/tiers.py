"""What the three tiers did and hold: counted from workers' reports, told to whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edgelora.v1 import adapter_pb2 as adapter_pb
from services.adapter_store.flash.tier import FlashTier
from services.adapter_store.messages import stages_message
from services.adapter_store.registry.manifest import AdapterManifest
from services.adapter_store.registry.registry import Registry
from services.adapter_store.residency import Residency, WorkerReport
from services.adapter_store.usage import Counters, FinishedLoad, UsageLedger


class Tiers:
    """Statistics of memory, flash and remotes."""

    def __init__(
        self,
        *,
        ledger: UsageLedger,
        flash: FlashTier,
        residency: Residency,
        registry: Registry,
        boot_clock_s: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._flash = flash
        self._residency = residency
        self._registry = registry
        self._boot_clock_s = boot_clock_s

    def note_report(
        self,
        report: WorkerReport,
        *,
        sequence: int,
        loads: Sequence[FinishedLoad],
        evictions: Mapping[str, bool],
        num_slot_waits: int,
    ) -> bool:
        """Counts what a worker did since its last report; False for a repeated one.

        `evictions`: digest -> whether it had been loaded for nothing.
        """
        if not self._ledger.is_news(report.worker, report.incarnation, sequence):
            return False
        for load in loads:
            self._ledger.note_load(load)
        for digest, was_wasted in evictions.items():
            self._ledger.note_eviction(digest, was_wasted=was_wasted)
        self._ledger.num_slot_waits += num_slot_waits
        return True

    def usage(self, manifest: AdapterManifest) -> Counters:
        """One adapter's counters."""
        return self._ledger.of(manifest.tenant_id, manifest.digest)

    def statistics(self) -> adapter_pb.TierStatistics:
        """Sums over all adapters since the start, and what the tiers hold now."""
        totals = self._ledger.totals
        reports = self._residency.live(self._boot_clock_s())
        return adapter_pb.TierStatistics(
            num_memory_hits=totals.num_memory_hits,
            num_flash_hits=totals.num_flash_hits,
            num_remote_hits=totals.num_remote_hits,
            num_slot_waits=self._ledger.num_slot_waits,
            num_loads=totals.num_loads,
            num_warm_ups=totals.num_warm_ups,
            num_wasted_warm_ups=totals.num_wasted_warm_ups,
            flash_bytes_read=totals.flash_bytes_read,
            remote_bytes_read=totals.remote_bytes_read,
            load_seconds=stages_message(totals.load),
            flash_bytes=self._flash.used_bytes,
            flash_budget_bytes=self._flash.budget_bytes or 0,
            memory_bytes=sum(report.memory_bytes for report in reports),
            memory_budget_bytes=sum(report.memory_budget_bytes for report in reports),
            num_flash_evictions=self._flash.num_evictions,
            num_memory_evictions=self._ledger.num_memory_evictions,
            num_adapters=self._registry.num_adapters(),
        )
