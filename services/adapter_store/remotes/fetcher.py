"""Brings packages from remotes: the door of the remote tier."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgelora.errors import (
    EdgeLoraError,
    NotFoundError,
    ResourcePressureError,
    ServiceUnavailableError,
)
from services.adapter_store.remotes.counters import RemoteCounters
from services.adapter_store.remotes.failures import RemoteFailure, unreachable
from services.adapter_store.remotes.fetched import FetchedEncoded, FetchedPackage
from services.adapter_store.remotes.layer_flights import LayerFlights
from services.adapter_store.remotes.opening import OpenedRemote
from services.adapter_store.remotes.package import Layer, PackageFile, PackageManifest
from services.adapter_store.remotes.quarantine import Quarantine
from services.adapter_store.remotes.reference import PackageReference
from services.adapter_store.remotes.remotes_file import Remote
from services.adapter_store.remotes.single_flight import SingleFlight
from services.adapter_store.remotes.tenant_slots import TenantSlots
from services.adapter_store.remotes.transfer import TransferLimits
from services.adapter_store.remotes.try_book import TryBook
from services.adapter_store.remotes.try_ledger import TryLedger
from services.adapter_store.threads import in_thread
from services.chassis.logs import get_logger

Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes of the package."""

_ORDER: tuple[PackageFile, ...] = ("config", "probe", "card", "head", "encoded", "weights")


@dataclass(frozen=True, slots=True)
class _Found:
    """A package whose manifest is here, for a tenant that has a slot."""

    opened: OpenedRemote
    reference: PackageReference
    trusts_encoded: bool
    manifest: PackageManifest
    started_s: float


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
        encoded_for: str | None = None,
        within_s: float | None = None,
        on_progress: Progress | None = None,
    ) -> FetchedPackage:
        """Brings a package whole, or leaves nothing but bytes for a later try.

        `encoded_for`: the digest of a base model; what the package holds encoded for it comes
        too, when it can be had and the remote is trusted with that. `within_s` is the time the
        caller has. Raises NotFoundError (package, or remote unknown or not the tenant's),
        ServiceUnavailableError with a delay, DataCorruptError, AdapterRejectedError,
        PermissionDeniedError, QueueFullError, ResourcePressureError.
        """
        async with self._finding(tenant_id, reference, within_s) as found:
            wanted = dict(found.manifest.layers)
            if encoded_for is not None and found.trusts_encoded:
                encoded = found.manifest.encoded_for(encoded_for)
                if encoded is not None:
                    wanted["encoded"] = encoded
            return await self._fetch(found, wanted, on_progress)

    async def fetch_encoded(
        self, tenant_id: str, reference: PackageReference, *, digest: str, size_bytes: int
    ) -> FetchedEncoded | FetchedPackage:
        """Brings an encoded form alone, its bytes being known; the files when it is not to be had.

        `digest`: `sha256:` and the 64 hex digits of its bytes. Raises as `fetch_package`.
        """
        async with self._finding(tenant_id, reference, None) as found:
            layer = found.manifest.encoded_as(digest, size_bytes)
            if layer is not None:
                try:
                    return await self._fetch_alone(found, layer)
                except ResourcePressureError:
                    raise  # the files would take more
                except EdgeLoraError as error:
                    _log_missing(found, error)
            return await self._fetch(found, found.manifest.layers, None)

    async def aclose(self) -> None:
        """Closes connections that are kept open."""
        for opened in await asyncio.gather(*self._opened.values(), return_exceptions=True):
            if isinstance(opened, OpenedRemote):
                await opened.source.aclose()

    @asynccontextmanager
    async def _finding(
        self, tenant_id: str, reference: PackageReference, within_s: float | None
    ) -> AsyncIterator[_Found]:
        """Waits for one of the tenant's slots and reads the manifest."""
        remote = self._remotes.get(reference.remote)
        if remote is None or not remote.is_open_to(tenant_id):
            raise NotFoundError(
                "you have no such remote: the node's operator sets them up (docs/remotes.md)",
                field="package",
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
                    yield _Found(opened, reference, remote.trusts_encoded, manifest, started_s)
        except TimeoutError:
            raise ServiceUnavailableError(
                "the package is not here yet: what has arrived is kept, try again",
                metadata={"remote": "slow"},
                retry_after_s=1.0,
            ) from None

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
        self, found: _Found, wanted: Mapping[PackageFile, Layer], on_progress: Progress | None
    ) -> FetchedPackage:
        paths: dict[PackageFile, Path] = {}
        total_bytes = sum(layer.size_bytes for layer in wanted.values())
        done_bytes = 0

        def watch(size_bytes: int) -> None:
            if on_progress is not None:
                on_progress(done_bytes + size_bytes, total_bytes)

        with self._new_package() as package:
            for file in _ORDER:
                if (layer := wanted.get(file)) is None:
                    continue
                try:
                    await self._layers.take(
                        found.opened, found.reference, layer, package / file, watch
                    )
                except EdgeLoraError as error:
                    if file != "encoded":
                        raise
                    # The node encodes by itself.
                    _log_missing(found, error)
                    total_bytes -= layer.size_bytes
                    continue
                paths[file] = package / file
                done_bytes += layer.size_bytes
                watch(0)
        self.counters.num_packages += 1
        weights = wanted["weights"]
        return FetchedPackage(
            directory=package,
            config_path=paths["config"],
            weights_path=paths["weights"],
            probe_path=paths.get("probe"),
            card_path=paths.get("card"),
            head_path=paths.get("head"),
            encoded_path=paths.get("encoded"),
            weights_bytes=weights.size_bytes,
            weights_sha256=bytes.fromhex(weights.digest.removeprefix("sha256:")),
            manifest_digest=found.manifest.digest,
            source=str(found.reference.pinned(found.manifest.digest)),
            total_bytes=total_bytes,
            seconds=self._clock_s() - found.started_s,
        )

    async def _fetch_alone(self, found: _Found, layer: Layer) -> FetchedEncoded:
        with self._new_package() as package:
            path = package / layer.file
            await self._layers.take(found.opened, found.reference, layer, path, lambda _: None)
        self.counters.num_packages += 1
        return FetchedEncoded(
            directory=package,
            path=path,
            total_bytes=layer.size_bytes,
            seconds=self._clock_s() - found.started_s,
        )

    @contextmanager
    def _new_package(self) -> Iterator[Path]:
        """A directory that stays when all goes well."""
        package = self._quarantine.new_package()
        try:
            yield package
        except BaseException:
            shutil.rmtree(package, ignore_errors=True)
            raise


def _log_missing(found: _Found, error: EdgeLoraError) -> None:
    get_logger().warning(
        "encoded_form_not_fetched",
        remote=found.reference.remote,
        package=found.manifest.digest,
        code=error.code,
    )
