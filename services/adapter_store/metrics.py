"""What the adapter store counts: where adapters were found, what loads took, what came in."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric

from edgelora.v1.adapter_pb2 import TierStatistics
from services.adapter_store.ended_registration import EndedRegistration
from services.adapter_store.hot_index import HotIndex
from services.adapter_store.tiers import Tiers
from services.chassis.metrics import Metrics, counter, counters, gauge, gauges

_VERIFY_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class StoreMetrics(Metrics):
    """The metrics of one adapter store."""

    def __init__(self, address: str) -> None:
        super().__init__("adapter_store", address)
        self._registrations = Counter(
            "edgelora_registrations_total",
            "Adapters that were verified, by result: new, known, left, or the reason of an error.",
            ["result"],
            registry=self.registry,
        )
        self._verifications = Histogram(
            "edgelora_verification_seconds",
            "Time in which an adapter was proven and encoded, the wait for a turn left out.",
            buckets=_VERIFY_BUCKETS_S,
            registry=self.registry,
        )

    def watch(self, tiers: Tiers, index: HotIndex | None) -> None:
        """Says where to read what the store holds; `index`: None where it has none."""

        def read() -> Iterable[Metric]:
            statistics = tiers.statistics()
            yield from _requests(statistics)
            yield from _loads(statistics)
            yield from _places(statistics)
            if index is not None:
                yield gauge(
                    "edgelora_hot_index_connected",
                    "Whether Redis took the last copy of the hot index: 1 or 0.",
                    float(index.is_connected),
                )
                yield counter(
                    "edgelora_hot_index_errors_total",
                    "Exchanges with Redis that failed.",
                    index.num_errors,
                )

        self.read_on_loop(read)

    def note_registration(self, ended: EndedRegistration) -> None:
        """Counts one registration; a RegistrationObserver."""
        if ended.error is not None:
            result = ended.error.reason.lower()
        elif ended.is_new is None:
            result = "left"
        else:
            result = "new" if ended.is_new else "known"
        self._registrations.labels(result).inc()
        if ended.verify_s is not None:
            self._verifications.observe(ended.verify_s)


def _requests(statistics: TierStatistics) -> Iterable[Metric]:
    yield counters(
        "edgelora_adapter_hits_total",
        "Requests for an adapter by the tier it was found in.",
        "tier",
        {
            "memory": statistics.num_memory_hits,
            "flash": statistics.num_flash_hits,
            "remote": statistics.num_remote_hits,
        },
    )
    yield counter(
        "edgelora_adapter_slot_waits_total",
        "Requests that had to wait for an adapter slot.",
        statistics.num_slot_waits,
    )


def _loads(statistics: TierStatistics) -> Iterable[Metric]:
    yield counter(
        "edgelora_adapter_loads_total",
        "Adapters that workers wrote into a slot, warm-ups among them.",
        statistics.num_loads,
    )
    stages = statistics.load_seconds
    yield counters(
        "edgelora_adapter_load_seconds_total",
        "Time of those loads by stage.",
        "stage",
        {
            "remote": stages.remote_s,
            "fetch": stages.fetch_s,
            "check": stages.check_s,
            "decode": stages.decode_s,
            "prove": stages.prove_s,
        },
    )
    yield counters(
        "edgelora_adapter_bytes_read_total",
        "Bytes of adapters that were moved, by the tier they came from.",
        "tier",
        {"flash": statistics.flash_bytes_read, "remote": statistics.remote_bytes_read},
    )
    yield counter(
        "edgelora_warm_ups_total", "Adapters loaded ahead of use.", statistics.num_warm_ups
    )
    yield counter(
        "edgelora_warm_ups_wasted_total",
        "Those of them that left their slot before anybody used them.",
        statistics.num_wasted_warm_ups,
    )
    yield counters(
        "edgelora_adapter_evictions_total",
        "Adapters that left a tier for others.",
        "tier",
        {"memory": statistics.num_memory_evictions, "flash": statistics.num_flash_evictions},
    )


def _places(statistics: TierStatistics) -> Iterable[Metric]:
    yield gauge("edgelora_adapters", "Adapters of all tenants.", statistics.num_adapters)
    yield gauges(
        "edgelora_tier_bytes",
        "Bytes of adapters in a tier.",
        "tier",
        {"memory": statistics.memory_bytes, "flash": statistics.flash_bytes},
    )
    yield gauges(
        "edgelora_tier_budget_bytes",
        "The most a tier may hold; absent: no bound of ours, or no worker has told.",
        "tier",
        {
            "memory": statistics.memory_budget_bytes or None,
            "flash": statistics.flash_budget_bytes or None,
        },
    )
