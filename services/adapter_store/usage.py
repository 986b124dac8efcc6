"""How adapters were brought to their requests: counted here, written to the registry now and then.

Pure: what happened and when is given.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

UsageKey = tuple[str, str]
"""Tenant and digest."""


class Tier(Enum):
    """Where a request found its adapter."""

    MEMORY = "memory"
    """In a worker's slot."""
    FLASH = "flash"
    REMOTE = "remote"
    """Only in its package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStages:
    """Seconds one load spent in each stage; see the message of that name."""

    remote_s: float = 0.0
    fetch_s: float = 0.0
    check_s: float = 0.0
    decode_s: float = 0.0
    prove_s: float = 0.0

    def __add__(self, other: LoadStages) -> LoadStages:
        sums = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in dataclasses.fields(self)
        }
        return LoadStages(**sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLoad:
    """One adapter that a worker wrote into a slot."""

    digest: str
    is_warm_up: bool
    bytes_read: int
    stages: LoadStages


@dataclass(slots=True, kw_only=True)
class Counters:
    """Sums of one adapter, or of all."""

    num_memory_hits: int = 0
    num_flash_hits: int = 0
    num_remote_hits: int = 0
    num_loads: int = 0
    num_warm_ups: int = 0
    num_wasted_warm_ups: int = 0
    flash_bytes_read: int = 0
    remote_bytes_read: int = 0
    last_used_s: float = 0.0
    """Unix time; 0 before the first use."""
    load: LoadStages = field(default_factory=LoadStages)
    """Of the last load of one adapter; of all loads in a sum."""

    @property
    def num_hits(self) -> int:
        """Requests, wherever they found it."""
        return self.num_memory_hits + self.num_flash_hits + self.num_remote_hits

    def add_hit(self, tier: Tier, now_s: float) -> None:
        """Counts a request."""
        self.last_used_s = now_s
        match tier:
            case Tier.MEMORY:
                self.num_memory_hits += 1
            case Tier.FLASH:
                self.num_flash_hits += 1
            case Tier.REMOTE:
                self.num_remote_hits += 1

    def add_load(self, load: FinishedLoad) -> None:
        """Counts a load, but for the times of its stages."""
        self.num_loads += 1
        self.num_warm_ups += load.is_warm_up
        self.flash_bytes_read += load.bytes_read

    def document(self) -> str:
        """As JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_document(cls, text: str) -> Counters:
        """From JSON. Raises ValueError or TypeError when it is not ours."""
        values = json.loads(text)
        values["load"] = LoadStages(**values["load"])
        return cls(**values)


class UsageLedger:
    """Counters of every adapter of every tenant, and their sum since the start."""

    def __init__(self, written: Mapping[UsageKey, str]) -> None:
        """`written`: the counters of earlier runs; unreadable ones begin anew."""
        self.totals = Counters()
        self.num_slot_waits = 0
        self.num_memory_evictions = 0
        self._counters: dict[UsageKey, Counters] = {}
        self._changed: set[UsageKey] = set()
        self._fetchers: dict[str, str] = {}
        """Digest -> the tenant whose ticket or permit fetched it last: loads count for it."""
        self._last_sequence: dict[str, tuple[int, int]] = {}
        """Worker -> incarnation and number of the last report counted."""
        for key, text in written.items():
            try:
                self._counters[key] = Counters.from_document(text)
            except (ValueError, TypeError, KeyError):
                continue

    def of(self, tenant_id: str, digest: str) -> Counters:
        """One adapter's counters, for reading."""
        return self._counters.get((tenant_id, digest), Counters())

    def last_used_s(self, tenants: Collection[str], digest: str) -> float:
        """Unix time any of the tenants last used an adapter; 0 when none did."""
        return max((self.of(tenant, digest).last_used_s for tenant in tenants), default=0.0)

    def most_used(self, limit: int) -> list[str]:
        """At most `limit` digests with hits of any tenant, the most used first."""
        uses: dict[str, tuple[int, float]] = {}
        for (_, digest), counters in self._counters.items():
            if counters.num_hits:
                hits, last_used_s = uses.get(digest, (0, 0.0))
                uses[digest] = (
                    hits + counters.num_hits,
                    max(last_used_s, counters.last_used_s),
                )
        return heapq.nlargest(limit, uses, key=lambda digest: uses[digest])

    def note_hit(self, tenant_id: str, digest: str, tier: Tier, now_s: float) -> None:
        """Counts a request for an adapter."""
        self._changing(tenant_id, digest).add_hit(tier, now_s)
        self.totals.add_hit(tier, now_s)

    def note_fetch(self, tenant_id: str, digest: str) -> None:
        """Notes for whom a worker loads an adapter."""
        self._fetchers[digest] = tenant_id

    def note_remote_bytes(self, tenant_id: str, digest: str, size_bytes: int) -> None:
        """Counts what a package moved."""
        self._changing(tenant_id, digest).remote_bytes_read += size_bytes
        self.totals.remote_bytes_read += size_bytes

    def is_news(self, worker: str, incarnation: int, sequence: int) -> bool:
        """Whether a worker's report was not counted yet; from now on it was."""
        if self._last_sequence.get(worker, (0, 0)) >= (incarnation, sequence):
            return False
        self._last_sequence[worker] = (incarnation, sequence)
        return True

    def note_load(self, load: FinishedLoad) -> None:
        """Counts a load a worker reported."""
        self.totals.add_load(load)
        self.totals.load += load.stages
        tenant_id = self._fetchers.get(load.digest)
        if tenant_id is not None:
            counters = self._changing(tenant_id, load.digest)
            counters.add_load(load)
            counters.load = load.stages

    def note_eviction(self, digest: str, *, was_wasted: bool) -> None:
        """Counts an adapter that left its slot."""
        self.num_memory_evictions += 1
        self.totals.num_wasted_warm_ups += was_wasted
        tenant_id = self._fetchers.get(digest)
        if was_wasted and tenant_id is not None:
            self._changing(tenant_id, digest).num_wasted_warm_ups += 1

    def forget(self, tenant_id: str, digest: str) -> None:
        """Drops the counters of an adapter that is gone."""
        self._counters.pop((tenant_id, digest), None)
        self._changed.discard((tenant_id, digest))
        if self._fetchers.get(digest) == tenant_id:
            del self._fetchers[digest]

    def take_changed(self) -> dict[UsageKey, str]:
        """What has to be written; the next call gives what changed since."""
        changed = {key: self._counters[key].document() for key in self._changed}
        self._changed.clear()
        return changed

    def _changing(self, tenant_id: str, digest: str) -> Counters:
        self._changed.add((tenant_id, digest))
        return self._counters.setdefault((tenant_id, digest), Counters())
