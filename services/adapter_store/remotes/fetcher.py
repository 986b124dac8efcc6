"""Brings packages from remotes: the door of the remote tier."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgelora.errors import NotFoundError, ServiceUnavailableError
from services.adapter_store.remotes.counters import RemoteCounters
from services.adapter_store.remotes.failures import RemoteFailure, unreachable
from services.adapter_store.remotes.layer_flights import LayerFlights
from services.adapter_store.remotes.opening import OpenedRemote
from services.adapter_store.remotes.package import PackageFile, PackageManifest
from services.adapter_store.remotes.quarantine import Quarantine
from services.adapter_store.remotes.reference import PackageReference
from services.adapter_store.remotes.remotes_file import Remote
from services.adapter_store.remotes.single_flight import SingleFlight
from services.adapter_store.remotes.tenant_slots import TenantSlots
from services.adapter_store.remotes.transfer import TransferLimits
from services.adapter_store.remotes.try_book import TryBook
from services.adapter_store.remotes.try_ledger import TryLedger
from services.adapter_store.threads import in_thread

Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes of the package."""

_ORDER: tuple[PackageFile, ...] = ("config", "probe", "weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPackage:
    """Files that are whole and match the manifest, private to whoever fetched them.

    Not verified as an adapter yet. `discard` it when done, also after its files were moved away.
    """

    directory: Path
    config_path: Path
    weights_path: Path
    probe_path: Path | None
    weights_bytes: int
    weights_sha256: bytes
    """Found while they arrived, equal to the manifest's."""
    manifest_digest: str
    source: str
    """`REMOTE/NAME@sha256:...`: the reference that brings the same bytes again."""
    total_bytes: int
    seconds: float
    """From the request, waiting for a slot included."""

    def discard(self) -> None:
        """Removes what is left of it. Blocks on storage; may be called twice."""
        shutil.rmtree(self.directory, ignore_errors=True)


class RemoteFetcher:
    """All remotes of the store. One instance, on one event loop."""

    def __init__(
        self,
        remotes: Mapping[str, Remote],
        open_remote: Callable[[Remote], OpenedRemote],
        quarantine: Quarantine,
        *,
        slots: TenantSlots,
        book: TryBook,
        limits: TransferLimits,
        clock_s: Callable[[], float],
    ) -> None:
        self._remotes = remotes
        self._open_remote = open_remote
        self._opened: dict[str, asyncio.Task[OpenedRemote]] = {}
        self._quarantine = quarantine
        self._slots = slots
        self._clock_s = clock_s
        self._manifests: SingleFlight[str, PackageManifest] = SingleFlight(lambda _: None)
        self.counters = RemoteCounters()
        self._ledger = TryLedger(book, clock_s, self.counters)
        self._layers = LayerFlights(
            quarantine, self._ledger, limits=limits, clock_s=clock_s, counters=self.counters
        )

    async def fetch_package(
        self,
        tenant_id: str,
        reference: PackageReference,
        *,
        within_s: float | None = None,
        on_progress: Progress | None = None,
    ) -> FetchedPackage:
        """Brings a package whole, or leaves nothing but bytes for a later try.

        `within_s` is the time the caller has. Raises NotFoundError (package, or remote unknown or
        not the tenant's), ServiceUnavailableError with a delay, DataCorruptError,
        AdapterRejectedError, PermissionDeniedError, QueueFullError, ResourcePressureError.
        """
        remote = self._remotes.get(reference.remote)
        if remote is None or not remote.is_open_to(tenant_id):
            raise NotFoundError(
                "you have no such remote: the node's operator sets them up", field="package"
            )
        started_s = self._clock_s()
        try:
            async with asyncio.timeout(within_s):
                self._ledger.check(remote.name, str(reference))
                async with self._slots.take(tenant_id):
                    self.counters.slot_wait_s += self._clock_s() - started_s
                    # What was tried while this one waited counts.
                    self._ledger.check(remote.name, str(reference))
                    opened = await self._source(remote)
                    manifest = await self._resolve(opened, reference)
                    return await self._fetch(opened, reference, manifest, started_s, on_progress)
        except TimeoutError:
            raise ServiceUnavailableError(
                "the package is not here yet: what has arrived is kept, try again",
                metadata={"remote": "slow"},
                retry_after_s=1.0,
            ) from None

    async def aclose(self) -> None:
        """Closes connections that are kept open."""
        for opened in await asyncio.gather(*self._opened.values(), return_exceptions=True):
            if isinstance(opened, OpenedRemote):
                await opened.source.aclose()

    async def _source(self, remote: Remote) -> OpenedRemote:
        """Opens a remote once. Raises ServiceUnavailableError."""
        opening = self._opened.get(remote.name)
        if opening is None:
            # In a thread: the first of a kind imports its client and reads certificates.
            opening = asyncio.ensure_future(in_thread(self._open_remote, remote))
            self._opened[remote.name] = opening
        try:
            return await asyncio.shield(opening)
        except OSError as error:
            self._opened.pop(remote.name, None)
            raise unreachable("its certificates can not be read").to_error(None) from error

    async def _resolve(self, opened: OpenedRemote, reference: PackageReference) -> PackageManifest:
        name, key = reference.remote, str(reference)
        self.counters.num_joins += self._manifests.is_running(key)

        async def read() -> PackageManifest:
            self.counters.num_attempts += 1
            started_s = self._clock_s()
            try:
                async with asyncio.timeout(opened.answer_timeout_s):
                    manifest = await opened.source.resolve(reference)
            except TimeoutError:
                failure = unreachable("it does not answer in time")
                self._ledger.note(name, key, failure)
                raise failure from None
            except RemoteFailure as failure:
                self._ledger.note(name, key, failure)
                raise
            finally:
                self.counters.resolve_s += self._clock_s() - started_s
            self._ledger.clear(name, key)
            return manifest

        try:
            async with self._manifests.join(key, read) as manifest:
                return manifest
        except RemoteFailure as failure:
            raise failure.to_error(self._ledger.delay_s(name, key)) from failure

    async def _fetch(
        self,
        opened: OpenedRemote,
        reference: PackageReference,
        manifest: PackageManifest,
        started_s: float,
        on_progress: Progress | None,
    ) -> FetchedPackage:
        package = self._quarantine.new_package()
        paths: dict[PackageFile, Path] = {}
        done_bytes = 0
        try:
            for file in _ORDER:
                if (layer := manifest.layers.get(file)) is None:
                    continue

                def watch(size_bytes: int, before: int = done_bytes) -> None:
                    if on_progress is not None:
                        on_progress(before + size_bytes, manifest.total_bytes)

                paths[file] = package / file
                await self._layers.take(opened, reference, layer, paths[file], watch)
                done_bytes += layer.size_bytes
                watch(0, done_bytes)
        except BaseException:
            shutil.rmtree(package, ignore_errors=True)
            raise
        self.counters.num_packages += 1
        return FetchedPackage(
            directory=package,
            config_path=paths["config"],
            weights_path=paths["weights"],
            probe_path=paths.get("probe"),
            weights_bytes=manifest.layers["weights"].size_bytes,
            weights_sha256=bytes.fromhex(manifest.layers["weights"].digest.removeprefix("sha256:")),
            manifest_digest=manifest.digest,
            source=str(reference.pinned(manifest.digest)),
            total_bytes=manifest.total_bytes,
            seconds=self._clock_s() - started_s,
        )
