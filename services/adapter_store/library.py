"""What the store does for tenants and workers: resolve, list, name, pin, delete, fetch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from itertools import islice

from edgelora.errors import AdapterIncompatibleError, DataCorruptError
from services.adapter_store.bases import ServedBases
from services.adapter_store.flash.blob_store import BlobStore
from services.adapter_store.flash.tier import FlashTier
from services.adapter_store.lower_ranks import lower_ranks
from services.adapter_store.names import (
    Selection,
    adapter_not_found,
    check_alias,
    check_distinct,
    check_selections,
    is_reference,
)
from services.adapter_store.registry.grants import Grant
from services.adapter_store.registry.manifest import AdapterManifest, Alias, Task
from services.adapter_store.registry.page_position import PagePosition
from services.adapter_store.registry.registry import Registry
from services.adapter_store.registry.writer import RegistryWriter, Removal
from services.adapter_store.residency import AdapterPlace, Residency, WorkerReport
from services.adapter_store.threads import in_thread
from services.adapter_store.upload import storage_errors
from services.adapter_store.usage import Tier, UsageLedger

_OTHER_TASK = {
    Task.ENCODE: "the adapter is an encoder's and generates nothing: use Classify or Embed",
    Task.GENERATE: "the adapter generates text and neither classifies nor embeds it: "
    "use Generate or Chat",
}
"""By the adapter's own task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSelection:
    """A selection after authorisation."""

    manifest: AdapterManifest
    strength: float
    alias: Alias | None
    """None when the caller gave a digest."""
    place: AdapterPlace
    version_of_digest: str | None
    """The digest selected, when `manifest` is a lower-rank version in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedAdapter:
    """An adapter with its names."""

    manifest: AdapterManifest
    aliases: Sequence[Alias]


class AdapterLibrary:
    """All adapters of all tenants. Every method is given the tenant a sealed claim names."""

    def __init__(
        self,
        *,
        bases: ServedBases,
        reader: Registry,
        writer: RegistryWriter,
        blobs: BlobStore,
        flash: FlashTier,
        residency: Residency,
        ledger: UsageLedger,
        changing: asyncio.Lock,
        max_pinned_per_tenant: int,
        unix_clock_s: Callable[[], float],
        boot_clock_s: Callable[[], float],
    ) -> None:
        """`changing`: held while flash and registry change."""
        self._bases = bases
        self._registry = reader
        self._writer = writer
        self._blobs = blobs
        self._flash = flash
        self._residency = residency
        self._ledger = ledger
        self._changing = changing
        self._max_pinned = max_pinned_per_tenant
        self._unix_clock_s = unix_clock_s
        self._boot_clock_s = boot_clock_s

    def resolve(
        self,
        tenant_id: str,
        selections: Sequence[Selection],
        *,
        max_rank: int | None = None,
        task: Task = Task.GENERATE,
    ) -> tuple[list[ResolvedSelection], dict[str, int]]:
        """Authorises selections; returns them as digests, and worker -> number it holds.

        With `max_rank`, an adapter of a higher rank is replaced by the tenant's version of it with
        the highest rank up to that one, if there is such a version.

        Raises InvalidRequestError, AdapterNotFoundError (unknown and foreign alike) and
        AdapterIncompatibleError (of another task, or registered for another base model).
        """
        check_selections(selections)
        found = []
        for index, selection in enumerate(selections):
            field = f"adapters[{index}].adapter"
            manifest, alias = self._find(tenant_id, selection.adapter, field)
            if manifest.content.task is not task:
                raise AdapterIncompatibleError(_OTHER_TASK[manifest.content.task], field=field)
            if manifest.content.base_digest not in self._bases.digests:
                raise AdapterIncompatibleError(
                    "the adapter was registered for another base model: register it again",
                    field=field,
                )
            found.append((manifest, alias))
        asked = [manifest for manifest, _ in found]
        check_distinct([manifest.digest for manifest in asked])
        served = asked
        if max_rank is not None:
            versions_of = partial(self._registry.versions, tenant_id)
            served = lower_ranks(asked, max_rank, versions_of)
        now_s = self._boot_clock_s()
        resolved = [
            ResolvedSelection(
                manifest=manifest,
                strength=selection.strength + 0.0,  # -0.0 becomes 0.0
                alias=alias,
                place=self._residency.place(manifest.digest, now_s),
                version_of_digest=None if manifest is original else original.digest,
            )
            for manifest, (original, alias), selection in zip(
                served, found, selections, strict=True
            )
        ]
        digests = [manifest.digest for manifest in served]
        for each in resolved:
            tier = _tier(each.place, is_on_flash=each.manifest.content.is_on_flash)
            # Of a granted adapter too: its counters are its owner's.
            self._ledger.note_hit(
                each.manifest.owner_id, each.manifest.digest, tier, self._unix_clock_s()
            )
        return resolved, self._residency.counts(digests, now_s)

    def page(
        self, tenant_id: str, size: int, after: PagePosition | None
    ) -> tuple[list[ListedAdapter], PagePosition | None]:
        """One page of what a tenant has and was granted, newest first, and where the next one
        starts."""
        own = self._registry.adapters(tenant_id, size + 1, after)
        granted = self._registry.granted(tenant_id, size + 1, after)
        newest_first = merge(own, granted, key=lambda each: (-each.registered_at_s, each.digest))
        manifests = list(islice(newest_first, size + 1))
        page = [self.listed(manifest) for manifest in manifests[:size]]
        if len(manifests) <= size:
            return page, None
        last = page[-1].manifest
        return page, PagePosition(last.registered_at_s, last.digest)

    def get(self, tenant_id: str, reference: str) -> ListedAdapter:
        """One adapter by alias or digest. Raises AdapterNotFoundError."""
        return self.listed(self._find(tenant_id, reference, "adapter")[0])

    def listed(self, manifest: AdapterManifest) -> ListedAdapter:
        """An adapter with its aliases."""
        return ListedAdapter(
            manifest=manifest,
            aliases=self._registry.names_of(manifest.tenant_id, manifest.digest),
        )

    def pinned(self) -> list[str]:
        """Digests any tenant has pinned."""
        return self._registry.pinned()

    def is_certified_for(self, tenant_id: str, digest: str) -> bool:
        """Whether an adapter's certificate is of this tenant's own files."""
        return self._registry.is_certified_for(tenant_id, digest)

    def example_prompts(self, manifest: AdapterManifest) -> tuple[str, ...]:
        """Those of an adapter's card."""
        return self._registry.example_prompts(manifest.tenant_id, manifest.digest)

    def labels(self, digest: str) -> tuple[str, ...]:
        """Those of a classifier; empty for what is none."""
        return self._registry.labels(digest)

    def certificate(self, digest: str) -> str | None:
        """The certificate of an adapter's content, as canonical JSON."""
        return self._registry.certificate(digest)

    def place(self, digest: str) -> AdapterPlace:
        """How far an adapter is from running."""
        return self._residency.place(digest, self._boot_clock_s())

    async def set_alias(
        self, tenant_id: str, name: str, digest: str, expected_generation: int | None
    ) -> Alias:
        """Points a name to one of the tenant's adapters.

        Raises InvalidRequestError, AdapterNotFoundError, AlreadyExistsError and
        QuotaExceededError.
        """
        check_alias(name, self._bases.names)
        async with self._changing:
            with storage_errors():
                return await in_thread(
                    self._writer.set_alias, tenant_id, name, digest, expected_generation
                )

    async def set_pinned(self, tenant_id: str, reference: str, *, is_pinned: bool) -> ListedAdapter:
        """Keeps an adapter close, or lets it go.

        Raises AdapterNotFoundError and QuotaExceededError.
        """
        digest = self.get(tenant_id, reference).manifest.digest
        async with self._changing:
            with storage_errors():
                await in_thread(
                    self._writer.set_pinned,
                    tenant_id,
                    digest,
                    is_pinned=is_pinned,
                    max_pinned=self._max_pinned,
                )
        return self.get(tenant_id, digest)

    async def delete(self, tenant_id: str, reference: str) -> Removal:
        """Removes an alias, or an adapter with its aliases and its unshared blobs.

        Requests that run with it finish. Raises AdapterNotFoundError.
        """
        if not is_reference(reference):
            raise adapter_not_found("adapter")
        async with self._changing:
            removal = await in_thread(self._delete, tenant_id, reference)
        if removal.digest is not None:
            self._ledger.forget(tenant_id, removal.digest)
        return removal

    def _delete(self, tenant_id: str, reference: str) -> Removal:
        with storage_errors():
            removal = self._writer.delete(tenant_id, reference)
        self._flash.remove(removal.unused_blobs)
        return removal

    def find_allowed(
        self, tenant_id: str, allowed: Collection[str], digest: str
    ) -> AdapterManifest:
        """Authorises a worker's fetch.

        `allowed` are the digests of the ticket. Raises AdapterNotFoundError, also when the
        adapter was deleted or its grant withdrawn since. A granted one is given as its owner has
        it: what brings it to flash is the owner's.
        """
        manifest = self._registry.get(tenant_id, digest) if digest in allowed else None
        if manifest is None and digest in allowed:
            granted = self._registry.find_granted(tenant_id, digest)
            manifest = None if granted is None else granted.owned
        if manifest is None:
            raise adapter_not_found("digest")
        self._ledger.note_fetch(manifest.tenant_id, digest)
        return manifest

    async def read(self, blob: str) -> AsyncIterator[bytes]:
        """A blob in pieces. Raises DataCorruptError when it went away meanwhile."""
        pieces = self._blobs.read(blob)
        try:
            while piece := await in_thread(next, pieces, b""):
                yield piece
        except OSError:
            raise DataCorruptError(
                "the stored adapter can not be read: it may just have been deleted",
                field="adapter",
            ) from None
        finally:
            await in_thread(pieces.close)

    def report(self, report: WorkerReport) -> tuple[list[str], bool]:
        """Takes a worker's report; returns digests it holds that no tenant has any more, and
        whether the report changed which adapters lie where.

        Raises PermissionDeniedError for a stale process.
        """
        is_change = self._residency.report(report)
        held = set(report.slots) | report.refused
        return sorted(held - self._registry.registered(held)), is_change

    def take_hints(self, hints: Sequence[WorkerReport]) -> None:
        """Takes what the hot index said, as far as it names adapters that exist."""
        for hint in hints:
            known = self._registry.registered(hint.slots)
            slots = {digest: slot for digest, slot in hint.slots.items() if digest in known}
            self._residency.report(replace(hint, slots=slots))

    def probe(self) -> None:
        """Reads the registry and the blob directory; raises OSError or sqlite3.Error."""
        self._registry.num_adapters("")
        self._blobs.probe()

    async def grant(self, owner_id: str, reference: str, tenant_id: str, name: str | None) -> Grant:
        """Lets a tenant use an adapter of another one. Raises as `GrantWriter.grant`."""
        if not is_reference(reference):
            raise adapter_not_found("adapter")
        if name is not None:
            check_alias(name, self._bases.names)
        async with self._changing:
            with storage_errors():
                return await in_thread(
                    self._writer.grant, owner_id, reference, tenant_id, name, self._unix_clock_s()
                )

    async def withdraw(self, tenant_id: str, digest: str) -> Grant:
        """Ends a grant: nothing resolves or fetches by it any more; what runs with it finishes.

        Raises NotFoundError.
        """
        async with self._changing:
            with storage_errors():
                return await in_thread(self._writer.withdraw, tenant_id, digest)

    def grants(self, tenant_id: str | None) -> list[Grant]:
        """The grants of a tenant, or of all."""
        return self._registry.grants(tenant_id)

    def _find(
        self, tenant_id: str, reference: str, field: str
    ) -> tuple[AdapterManifest, Alias | None]:
        found = self._registry.find(tenant_id, reference) if is_reference(reference) else None
        if found is None:
            raise adapter_not_found(field)
        return found


def _tier(place: AdapterPlace, *, is_on_flash: bool) -> Tier:
    if place is AdapterPlace.RESIDENT:
        return Tier.MEMORY
    return Tier.FLASH if is_on_flash else Tier.REMOTE
