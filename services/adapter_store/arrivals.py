"""Adapters on their way in: sent by a tenant, or brought from a remote."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgelora.errors import DataCorruptError
from services.adapter_store.flash.tier import FlashTier
from services.adapter_store.names import check_alias, check_description
from services.adapter_store.registration import Registration, RegistrationDesk
from services.adapter_store.registry.manifest import AdapterManifest, Blob
from services.adapter_store.registry.writer import AdapterQuota
from services.adapter_store.threads import in_thread
from services.adapter_store.upload import AdapterFiles, FileKind, UploadArea
from services.adapter_store.usage import UsageLedger
from services.adapter_store.wish import Wish
from services.chassis.logs import get_logger

OnProgress = Callable[[int, int], None]
"""Told the bytes received and the bytes in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that has arrived, in a directory that goes when its context ends."""

    reference: str
    """Its remote, name and manifest digest: it can never mean anything else."""
    files: AdapterFiles
    received_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPackage:
    """The encoded form of an adapter that has arrived alone, in such a directory."""

    file: Path
    """The bytes that were asked for, synced."""
    received_bytes: int


class Packages(Protocol):
    """The remote tier."""

    def bring(
        self, tenant_id: str, reference: str, on_progress: OnProgress
    ) -> AbstractAsyncContextManager[Package]:
        """Brings a package whole into a private directory.

        Raises InvalidRequestError, NotFoundError, PermissionDeniedError, DataCorruptError,
        ServiceUnavailableError.
        """
        ...

    def bring_encoded(
        self, tenant_id: str, reference: str, encoded: Blob
    ) -> AbstractAsyncContextManager[EncodedPackage | Package]:
        """Brings an encoded form alone, or the whole package when those bytes are not to be had.

        Raises as `bring`.
        """
        ...


class Arrivals:
    """Takes uploads, installs packages, restores what was evicted from flash."""

    def __init__(
        self,
        *,
        reserved_names: Collection[str],
        uploads: UploadArea,
        packages: Packages,
        flash: FlashTier,
        desk: RegistrationDesk,
        ledger: UsageLedger,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`reserved_names`: those of the base models, which no alias may have."""
        self._reserved_names = reserved_names
        self._uploads = uploads
        self._packages = packages
        self._flash = flash
        self._desk = desk
        self._ledger = ledger
        self._clock_s = clock_s
        self._restores: dict[tuple[str, str], asyncio.Task[None]] = {}
        """By tenant and digest: each has a package, rights and a queue of its own."""

    async def upload(
        self,
        tenant_id: str,
        wish: Wish,
        sizes: Mapping[FileKind, int],
        chunks: AsyncIterator[tuple[FileKind, bytes]],
        quota: AdapterQuota | None = None,
    ) -> Registration:
        """Takes an upload, has it verified, and stores it; or leaves nothing behind.

        `quota`: what the tenant may have, None for the store's own bounds. Raises
        InvalidRequestError, AdapterRejectedError, AdapterIncompatibleError, AdapterNotFoundError,
        AlreadyExistsError, QuotaExceededError, QueueFullError, ResourcePressureError.
        """
        self._check(wish)
        upload = await in_thread(self._uploads.begin, sizes)
        try:
            async for kind, data in chunks:
                await in_thread(upload.write, kind, data)
            files = await in_thread(upload.finish)
            return await self._desk.register(tenant_id, files, wish, package=None, quota=quota)
        finally:
            await in_thread(self._uploads.end, upload)

    async def install(
        self,
        tenant_id: str,
        wish: Wish,
        reference: str,
        on_progress: OnProgress,
        quota: AdapterQuota | None = None,
    ) -> Registration:
        """Brings a package and registers it. Raises as `upload` and `Packages.bring`."""
        self._check(wish)
        async with self._packages.bring(tenant_id, reference, on_progress) as package:
            registration = await self._desk.register(
                tenant_id, package.files, wish, package=package.reference, quota=quota
            )
            self._ledger.note_remote_bytes(
                tenant_id, registration.manifest.digest, package.received_bytes
            )
            return registration

    async def bring_to_flash(self, manifest: AdapterManifest) -> float:
        """Has an adapter whole on flash when it returns; returns the seconds a transfer took.

        What is damaged comes from its package again. Whoever asks for the same one of the tenant
        waits for the same transfer. Raises DataCorruptError when there is no package, and as
        `install`.
        """
        if manifest.content.is_on_flash:
            try:
                await in_thread(self._flash.check, manifest.content)
            except DataCorruptError:
                if manifest.package is None:
                    raise
                get_logger().error("damaged_adapter_set_aside", digest=manifest.digest)
                await self._desk.set_aside(manifest.digest)
            else:
                return 0.0
        started_s = self._clock_s()
        key = manifest.tenant_id, manifest.digest
        task = self._restores.get(key)
        if task is None:
            task = asyncio.create_task(self._restore(manifest))
            self._restores[key] = task
            task.add_done_callback(lambda done: self._end_restore(key, done))
        # Who stops waiting does not stop the transfer for the others.
        await asyncio.shield(task)
        return self._clock_s() - started_s

    async def close(self) -> None:
        """Stops the transfers under way."""
        tasks = list(self._restores.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _restore(self, manifest: AdapterManifest) -> None:
        if manifest.package is None:
            raise DataCorruptError(
                "the adapter is not on flash, and nothing says where it came from: "
                "register it again",
                field="adapter",
            )
        tenant_id, content = manifest.tenant_id, manifest.content
        encoded = self._desk.lasting_form(content)
        async with (
            self._packages.bring(tenant_id, manifest.package, lambda _received, _total: None)
            if encoded is None
            else self._packages.bring_encoded(tenant_id, manifest.package, encoded)
        ) as package:
            if isinstance(package, EncodedPackage):
                await self._desk.put_back(content, package.file)
            else:
                await self._desk.restore(tenant_id, content, package.files)
            self._ledger.note_remote_bytes(tenant_id, manifest.digest, package.received_bytes)

    def _end_restore(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        self._restores.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen, also when nobody waits any more

    def _check(self, wish: Wish) -> None:
        if wish.alias is not None:
            check_alias(wish.alias.name, self._reserved_names)
        check_description(wish.description)
