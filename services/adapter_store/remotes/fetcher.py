"""Brings packages from remotes: the door of the remote tier."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgelora.errors import NotFoundError, ServiceUnavailableError
from services.adapter_store.remotes.counters import RemoteCounters
from services.adapter_store.remotes.failures import (
    TRANSIENT,
    FailureKind,
    RemoteFailure,
    unreachable,
)
from services.adapter_store.remotes.opening import OpenedRemote
from services.adapter_store.remotes.package import Layer, PackageFile, PackageManifest
from services.adapter_store.remotes.quarantine import Quarantine
from services.adapter_store.remotes.reference import PackageReference
from services.adapter_store.remotes.remote_http import faulty
from services.adapter_store.remotes.remotes_file import Remote
from services.adapter_store.remotes.single_flight import SingleFlight
from services.adapter_store.remotes.tenant_slots import TenantSlots
from services.adapter_store.remotes.transfer import LayerTransfer, TransferLimits
from services.adapter_store.remotes.try_book import TryBook
from services.adapter_store.threads import in_thread
from services.adapter_store.upload import storage_errors

Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes of the package."""

_ORDER: tuple[PackageFile, ...] = ("config", "probe", "weights")
_REMOTE_WIDE = {FailureKind.UNREACHABLE, FailureKind.BUSY}
_LayerKey = tuple[Literal["layer"], str, str]


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
        self._opened: dict[str, OpenedRemote] = {}
        self._quarantine = quarantine
        self._slots = slots
        self._book = book
        self._limits = limits
        self._clock_s = clock_s
        self._manifests: SingleFlight[str, PackageManifest] = SingleFlight(lambda _: None)
        self._layers: SingleFlight[_LayerKey, Path] = SingleFlight(quarantine.remove)
        self._watchers: dict[_LayerKey, list[Callable[[int], None]]] = {}
        self.counters = RemoteCounters()

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
                self._check(remote, str(reference))
                async with self._slots.take(tenant_id):
                    self.counters.slot_wait_s += self._clock_s() - started_s
                    # What was tried while this one waited counts.
                    self._check(remote, str(reference))
                    manifest = await self._resolve(remote, reference)
                    return await self._fetch(remote, reference, manifest, started_s, on_progress)
        except TimeoutError:
            raise ServiceUnavailableError(
                "the package is not here yet: what has arrived is kept, try again",
                metadata={"remote": "slow"},
                retry_after_s=1.0,
            ) from None

    async def aclose(self) -> None:
        """Closes connections that are kept open."""
        for opened in self._opened.values():
            await opened.source.aclose()

    def _source(self, remote: Remote) -> OpenedRemote:
        if remote.name not in self._opened:
            self._opened[remote.name] = self._open_remote(remote)
        return self._opened[remote.name]

    async def _resolve(self, remote: Remote, reference: PackageReference) -> PackageManifest:
        key = str(reference)
        self.counters.num_joins += self._manifests.is_running(key)

        async def read() -> PackageManifest:
            opened = self._source(remote)
            self.counters.num_attempts += 1
            started_s = self._clock_s()
            try:
                async with asyncio.timeout(opened.answer_timeout_s):
                    manifest = await opened.source.resolve(reference)
            except TimeoutError:
                raise self._noted(remote, key, unreachable("it does not answer in time")) from None
            except RemoteFailure as failure:
                self._noted(remote, key, failure)
                raise
            finally:
                self.counters.resolve_s += self._clock_s() - started_s
            self._book.clear(remote.name)
            self._book.clear(key)
            return manifest

        try:
            async with self._manifests.join(key, read) as manifest:
                return manifest
        except RemoteFailure as failure:
            raise failure.to_error(self._delay_s(remote, key)) from failure

    async def _fetch(
        self,
        remote: Remote,
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
                await self._take_layer(remote, reference, layer, paths[file], watch)
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

    async def _take_layer(
        self,
        remote: Remote,
        reference: PackageReference,
        layer: Layer,
        target: Path,
        watch: Callable[[int], None],
    ) -> None:
        """Puts a whole layer at `target`, from the transfer everybody who wants it shares."""
        key: _LayerKey = ("layer", remote.name, layer.digest)
        if self._layers.is_running(key):
            self.counters.num_joins += 1
        else:
            self._check(remote, key)
        watchers = self._watchers.setdefault(key, [])
        watchers.append(watch)
        try:
            async with self._layers.join(
                key, lambda: self._bring(remote, reference, layer, key)
            ) as path:
                with storage_errors():
                    os.link(path, target, follow_symlinks=False)
        except RemoteFailure as failure:
            raise failure.to_error(self._delay_s(remote, key)) from failure
        finally:
            watchers.remove(watch)
            if not watchers:
                self._watchers.pop(key, None)

    async def _bring(
        self, remote: Remote, reference: PackageReference, layer: Layer, key: _LayerKey
    ) -> Path:
        opened = self._source(remote)
        started_s = self._clock_s()
        with storage_errors():
            partial = self._quarantine.begin(remote.name, layer.digest, layer.size_bytes)
        transfer = LayerTransfer(
            opened.source,
            reference,
            layer,
            partial,
            limits=self._limits,
            open_timeout_s=opened.answer_timeout_s,
            counters=self.counters,
            on_bytes=lambda size_bytes: self._tell(key, size_bytes),
        )
        try:
            await in_thread(partial.load)
            async with asyncio.timeout(self._limits.total_s):
                while True:
                    before_bytes = partial.size_bytes
                    try:
                        await transfer.attempt()
                        break
                    except RemoteFailure as failure:
                        gained_bytes = partial.size_bytes - before_bytes
                        if gained_bytes >= self._limits.rate_bytes:
                            self._book.clear(key)
                        self._noted(remote, key, failure)
                        if not self._goes_on(failure, before_bytes, gained_bytes):
                            raise
                    await asyncio.sleep(self._delay_s(remote, key) or 0.0)
        except TimeoutError:
            raise self._noted(remote, key, faulty("it is too slow")) from None
        except BaseException:
            self._quarantine.keep(partial)
            raise
        finally:
            self.counters.transfer_s += self._clock_s() - started_s
        self._book.clear(key)
        return self._quarantine.finish(partial)

    def _goes_on(self, failure: RemoteFailure, before_bytes: int, gained_bytes: int) -> bool:
        """Whether another try is worth its wait, rather than telling those who wait."""
        if failure.kind is FailureKind.CORRUPT:
            # Bytes of an earlier try may be the bad ones; they are gone now.
            return before_bytes > 0
        return failure.kind in TRANSIENT and gained_bytes >= self._limits.rate_bytes

    def _tell(self, key: _LayerKey, size_bytes: int) -> None:
        for watch in tuple(self._watchers.get(key, ())):
            watch(size_bytes)

    def _check(self, remote: Remote, key: str | _LayerKey) -> None:
        """Raises what stands against a try now."""
        now_s = self._clock_s()
        standing = self._book.standing(remote.name, now_s) or self._book.standing(key, now_s)
        if standing is not None:
            self.counters.num_negative_hits += 1
            failure, left_s = standing
            raise failure.to_error(left_s)

    def _noted(self, remote: Remote, key: str | _LayerKey, failure: RemoteFailure) -> RemoteFailure:
        self.counters.num_failures[failure.kind] += 1
        now_s = self._clock_s()
        self._book.note(key, failure, now_s)
        if failure.kind in _REMOTE_WIDE:
            self._book.note(remote.name, failure, now_s)
        return failure

    def _delay_s(self, remote: Remote, key: str | _LayerKey) -> float | None:
        """Seconds until a try is allowed again."""
        now_s = self._clock_s()
        standing = (self._book.standing(key, now_s), self._book.standing(remote.name, now_s))
        return max((left_s for _, left_s in filter(None, standing)), default=None)
