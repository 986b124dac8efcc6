"""The flash tier: blobs of registered adapters within a budget of bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from edgelora.errors import ResourcePressureError
from services.adapter_store.flash.blob_store import BlobStore
from services.adapter_store.flash.eviction import EvictionCandidate, choose_evictions
from services.adapter_store.forecast.flash_plan import FlashShelf
from services.adapter_store.registry.manifest import AdapterContent, Blob
from services.adapter_store.registry.rows import EvictableContent
from services.adapter_store.registry.writer import RegistryWriter
from services.adapter_store.usage import UsageLedger
from services.chassis.logs import get_logger

_LEAST_RESIDENCY_S = 3.0
"""A worker may just be opening what was used or brought so shortly ago."""


class FlashTier:
    """Takes blobs in and lets them go. Blocks on storage; its caller changes the store alone."""

    def __init__(
        self,
        blobs: BlobStore,
        registry: RegistryWriter,
        ledger: UsageLedger,
        *,
        budget_bytes: int | None,
        min_residency_s: float,
        held: Callable[[], Collection[str]],
        busy: Callable[[], Collection[str]],
        unix_clock_s: Callable[[], float],
    ) -> None:
        """`budget_bytes`: None for no bound but the disk's. `held`: digests in workers' slots;
        `busy`: those of them that are used or on their way."""
        self._blobs = blobs
        self._registry = registry
        self._ledger = ledger
        self.budget_bytes = budget_bytes
        self._min_residency_s = min_residency_s
        self._held = held
        self._busy = busy
        self._unix_clock_s = unix_clock_s
        self.num_evictions = 0
        self._order: deque[tuple[str, float]] = deque()
        """Digest and last use of what may go, least recently used first, as the last scan found
        it. Scanning each time would cost in proportion to all adapters."""

    @property
    def used_bytes(self) -> int:
        """What all blobs take."""
        return self._blobs.total_bytes

    def adopt(self, files: Iterable[tuple[Path, Blob]]) -> None:
        """Moves finished, synced files in, after making room for them.

        Raises ResourcePressureError when the budget does not allow it; then nothing moved.
        """
        wanted = list(files)
        self._make_room(
            sum(blob.size_bytes for _, blob in wanted if not self._blobs.has(blob.name))
        )
        for path, blob in wanted:
            self._blobs.adopt(path, blob.name)

    def check(self, content: AdapterContent) -> None:
        """Raises DataCorruptError unless every blob is there, whole and unchanged."""
        for blob in content.blobs:
            self._blobs.check(blob.name, blob.size_bytes)

    def remove(self, names: Collection[str]) -> None:
        """Removes blobs nothing refers to any more."""
        for name in names:
            try:
                self._blobs.remove(name)
            except OSError as error:
                # The next start sweeps it.
                get_logger().warning("blob_not_removed", errno=error.errno)

    def offer(self, digests: Sequence[str]) -> None:
        """Has these go first, in their order, when room is needed next; as far as they may."""
        for digest in reversed(digests):
            content = self._registry.evictable_content(digest)
            if content is not None:
                self._order.appendleft((digest, self._last_used_s(content)))

    def shelf(self) -> FlashShelf:
        """What the forecast has to know."""
        if self.budget_bytes is None:
            return FlashShelf(free_bytes=None, evictable=(), min_residency_s=0.0)
        held = self._held()
        return FlashShelf(
            free_bytes=self.budget_bytes - self.used_bytes,
            evictable=[
                EvictionCandidate(
                    digest=content.digest,
                    size_bytes=content.flash_bytes,
                    last_used_s=self._last_used_s(content),
                    is_in_use=content.digest in held,
                )
                for content in self._registry.evictable()
            ],
            min_residency_s=self._min_residency_s,
        )

    def _make_room(self, needed_bytes: int) -> None:
        if self.budget_bytes is None or not needed_bytes:
            return  # what repairs a blob needs none, also when the budget was made smaller
        excess_bytes = self.used_bytes + needed_bytes - self.budget_bytes
        if excess_bytes <= 0:
            return
        chosen = self._choose(excess_bytes, self._held())
        if chosen is None:
            # Some became evictable since, or left their slots.
            self._scan()
            chosen = self._choose(excess_bytes, self._held())
        if chosen is None:
            # Else what lies idle in the slots would keep everything else out of them for ever.
            self._scan()
            chosen = self._choose(excess_bytes, self._busy())
        if chosen is None:
            # More adapters are in use than there is room for: better to bring them in turn than
            # to refuse one of them for as long as the others are wanted.
            self._scan()
            least_s = min(_LEAST_RESIDENCY_S, self._min_residency_s)
            chosen = self._choose(excess_bytes, self._busy(), least_s)
        if chosen is None:
            raise ResourcePressureError(
                f"the adapter store may use {self.budget_bytes} bytes of flash, and all of it is "
                "pinned, in use, used a moment ago or the only copy: try again in a while, or "
                "remove or unpin adapters first",
                metadata={"resource": "flash"},
            )
        self._evict(chosen)

    def _evict(self, digests: Collection[str]) -> None:
        for digest in digests:
            self.remove(self._registry.evict(digest))
            self.num_evictions += 1
        get_logger().info("flash_evicted", digests=list(digests))

    def _choose(
        self, excess_bytes: int, in_use: Collection[str], min_residency_s: float | None = None
    ) -> list[str] | None:
        return choose_evictions(
            self._candidates(in_use),
            excess_bytes,
            now_s=self._unix_clock_s(),
            min_residency_s=(self._min_residency_s if min_residency_s is None else min_residency_s),
        )

    def _candidates(self, in_use: Collection[str]) -> Iterator[EvictionCandidate]:
        """What the last scan found and is unchanged: nothing unknown to it was used earlier."""
        while self._order:
            digest, last_used_s = self._order.popleft()
            content = self._registry.evictable_content(digest)
            if content is None or self._last_used_s(content) != last_used_s:
                continue
            yield EvictionCandidate(
                digest=digest,
                size_bytes=content.flash_bytes,
                last_used_s=last_used_s,
                is_in_use=digest in in_use,
            )

    def _scan(self) -> None:
        found = [(each.digest, self._last_used_s(each)) for each in self._registry.evictable()]
        self._order = deque(sorted(found, key=lambda each: (each[1], each[0])))

    def _last_used_s(self, content: EvictableContent) -> float:
        """A registration is a use: nobody brings an adapter for nothing."""
        used_s = self._ledger.last_used_s(content.owners, content.digest)
        return max(used_s, content.registered_at_s)
