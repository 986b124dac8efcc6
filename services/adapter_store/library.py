"""What the store does for tenants and workers: register, resolve, list, name, delete, fetch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, replace

from edgelora.errors import AdapterIncompatibleError, DataCorruptError
from services.adapter_store.manifest import AdapterManifest, Alias
from services.adapter_store.names import (
    Selection,
    adapter_not_found,
    check_alias,
    check_description,
    check_distinct,
    check_selections,
    is_reference,
)
from services.adapter_store.registry import Registry, Removal
from services.adapter_store.residency import AdapterPlace, Residency, WorkerReport
from services.adapter_store.storage import Storage
from services.adapter_store.threads import in_thread
from services.adapter_store.upload import FileKind, StagedUpload, UploadArea, storage_errors
from services.adapter_store.verification import VerifiedAdapter, Verifier
from services.chassis.base_model import BaseModel
from services.chassis.logs import get_logger


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadHeader:
    """What a tenant announces before it sends files."""

    alias: str | None
    description: str
    replace_alias: bool
    config_bytes: int
    weights_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What came of an upload."""

    manifest: AdapterManifest
    alias: Alias | None
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSelection:
    """A selection after authorisation."""

    digest: str
    strength: float
    alias: str | None
    place: AdapterPlace


class AdapterLibrary:
    """All adapters of all tenants. Every method is given the tenant a sealed claim names."""

    def __init__(
        self,
        *,
        base: BaseModel,
        storage: Storage,
        uploads: UploadArea,
        verifier: Verifier,
        residency: Residency,
        max_adapters_per_tenant: int,
        unix_clock_s: Callable[[], float],
        boot_clock_s: Callable[[], float],
    ) -> None:
        self._base = base
        self._registry: Registry = storage.reader
        self._writer: Registry = storage.writer
        self._blobs = storage.blobs
        self._uploads = uploads
        self._verifier = verifier
        self._residency = residency
        self._max_adapters = max_adapters_per_tenant
        self._unix_clock_s = unix_clock_s
        self._boot_clock_s = boot_clock_s
        # Registry and blobs change together, one change at a time.
        self._changing = asyncio.Lock()

    async def register(
        self, tenant_id: str, header: UploadHeader, chunks: AsyncIterator[tuple[FileKind, bytes]]
    ) -> Registration:
        """Takes an upload, has it verified, and stores it; or leaves nothing behind.

        Raises InvalidRequestError, AdapterRejectedError, AdapterIncompatibleError,
        AlreadyExistsError, QuotaExceededError, QueueFullError, ResourcePressureError.
        """
        if header.alias is not None:
            check_alias(header.alias, self._base.name)
        check_description(header.description)
        upload = self._uploads.begin(header.config_bytes, header.weights_bytes)
        try:
            async for kind, data in chunks:
                await in_thread(upload.write, kind, data)
            await in_thread(upload.finish)
            verified = await self._verifier.verify(upload.path("config"), upload.path("weights"))
            if verified.weights_sha256 != upload.sha256("weights"):
                raise DataCorruptError(
                    "the weights changed while they were verified: upload them again",
                    field="weights",
                )
            async with self._changing:
                return await in_thread(self._store, tenant_id, header, upload, verified)
        finally:
            await in_thread(self._uploads.end, upload)

    def _store(
        self,
        tenant_id: str,
        header: UploadHeader,
        upload: StagedUpload,
        verified: VerifiedAdapter,
    ) -> Registration:
        config_blob = upload.replace_config(verified.canonical_config)
        weights_blob = verified.weights_sha256.hex()
        manifest = AdapterManifest(
            tenant_id=tenant_id,
            digest=verified.digest,
            base_digest=self._base.digest,
            rank=verified.rank,
            alpha=verified.alpha,
            target_modules=verified.target_modules,
            num_parameters=verified.num_parameters,
            config_blob=config_blob,
            weights_blob=weights_blob,
            config_bytes=len(verified.canonical_config),
            weights_bytes=header.weights_bytes,
            registered_at_s=self._unix_clock_s(),
            description=header.description,
        )
        try:
            with storage_errors():
                self._blobs.adopt(upload.path("config"), config_blob)
                self._blobs.adopt(upload.path("weights"), weights_blob)
                stored, alias, is_new = self._writer.add(
                    manifest,
                    alias=header.alias,
                    replace_alias=header.replace_alias,
                    max_adapters=self._max_adapters,
                )
        except BaseException:
            self._remove_blobs(self._writer.unused((config_blob, weights_blob)))
            raise
        return Registration(manifest=stored, alias=alias, is_new=is_new)

    def resolve(
        self, tenant_id: str, selections: Sequence[Selection]
    ) -> tuple[list[ResolvedSelection], dict[str, int]]:
        """Authorises selections; returns them as digests, and worker -> number it holds.

        Raises InvalidRequestError, AdapterNotFoundError (unknown and foreign alike) and
        AdapterIncompatibleError (registered for another base model).
        """
        check_selections(selections)
        now_s = self._boot_clock_s()
        resolved = []
        for index, selection in enumerate(selections):
            manifest = self._find(tenant_id, selection.adapter, f"adapters[{index}].adapter")
            if manifest.base_digest != self._base.digest:
                raise AdapterIncompatibleError(
                    "the adapter was registered for another base model: register it again",
                    field=f"adapters[{index}].adapter",
                )
            resolved.append(
                ResolvedSelection(
                    digest=manifest.digest,
                    strength=selection.strength + 0.0,  # -0.0 becomes 0.0
                    alias=None if selection.adapter == manifest.digest else selection.adapter,
                    place=self._residency.place(manifest.digest, now_s),
                )
            )
        digests = [selection.digest for selection in resolved]
        check_distinct(digests)
        return resolved, self._residency.counts(digests, now_s)

    def adapters_of(self, tenant_id: str) -> tuple[list[AdapterManifest], list[Alias]]:
        """A tenant's adapters, newest first, and its aliases."""
        return self._registry.adapters(tenant_id), self._registry.aliases(tenant_id)

    def place(self, digest: str) -> AdapterPlace:
        """How far an adapter is from running."""
        return self._residency.place(digest, self._boot_clock_s())

    async def set_alias(
        self, tenant_id: str, name: str, digest: str, expected_generation: int | None
    ) -> Alias:
        """Points a name to one of the tenant's adapters.

        Raises InvalidRequestError, AdapterNotFoundError and AlreadyExistsError.
        """
        check_alias(name, self._base.name)
        async with self._changing:
            with storage_errors():
                return await in_thread(
                    self._writer.set_alias, tenant_id, name, digest, expected_generation
                )

    async def delete(self, tenant_id: str, reference: str) -> Removal:
        """Removes an alias, or an adapter with its aliases and its unshared blobs.

        Requests that run with it finish. Raises AdapterNotFoundError.
        """
        if not is_reference(reference):
            raise adapter_not_found("adapter")
        async with self._changing:
            return await in_thread(self._delete, tenant_id, reference)

    def _delete(self, tenant_id: str, reference: str) -> Removal:
        with storage_errors():
            removal = self._writer.delete(tenant_id, reference)
        self._remove_blobs(removal.unused_blobs)
        return removal

    async def fetch(self, tenant_id: str, allowed: Collection[str], digest: str) -> AdapterManifest:
        """Authorises a worker's fetch and checks both blobs against their hashes.

        `allowed` are the digests of the ticket. Raises AdapterNotFoundError, also when the
        adapter was deleted since, and DataCorruptError.
        """
        manifest = self._registry.get(tenant_id, digest) if digest in allowed else None
        if manifest is None:
            raise adapter_not_found("digest")
        await in_thread(self._blobs.check, manifest.config_blob, manifest.config_bytes)
        await in_thread(self._blobs.check, manifest.weights_blob, manifest.weights_bytes)
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

    def _find(self, tenant_id: str, reference: str, field: str) -> AdapterManifest:
        manifest = self._registry.find(tenant_id, reference) if is_reference(reference) else None
        if manifest is None:
            raise adapter_not_found(field)
        return manifest

    def _remove_blobs(self, names: Collection[str]) -> None:
        for name in names:
            try:
                self._blobs.remove(name)
            except OSError as error:
                # Not referred to any more; the next start sweeps it.
                get_logger().warning("blob_not_removed", errno=error.errno)
