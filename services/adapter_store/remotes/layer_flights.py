"""Layers on their way: one transfer for everybody who wants the same one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.adapter_store.remotes.counters import RemoteCounters
from services.adapter_store.remotes.failures import TRANSIENT, FailureKind, RemoteFailure, faulty
from services.adapter_store.remotes.opening import OpenedRemote
from services.adapter_store.remotes.package import Layer
from services.adapter_store.remotes.quarantine import PartialFile, Quarantine
from services.adapter_store.remotes.reference import PackageReference
from services.adapter_store.remotes.single_flight import SingleFlight
from services.adapter_store.remotes.transfer import LayerTransfer, TransferLimits
from services.adapter_store.remotes.try_ledger import TryLedger
from services.adapter_store.threads import in_thread
from services.adapter_store.upload import storage_errors

Watch = Callable[[int], None]
"""Called with the bytes of the layer that are here."""


@dataclass(frozen=True, slots=True)
class _Key:
    remote: str
    digest: str


class LayerFlights:
    """Transfers by remote and digest. Tenants of different remotes never wait for each other."""

    def __init__(
        self,
        quarantine: Quarantine,
        ledger: TryLedger,
        *,
        limits: TransferLimits,
        clock_s: Callable[[], float],
        counters: RemoteCounters,
    ) -> None:
        self._quarantine = quarantine
        self._ledger = ledger
        self._limits = limits
        self._clock_s = clock_s
        self._counters = counters
        self._flights: SingleFlight[_Key, Path] = SingleFlight(quarantine.remove)
        self._watches: dict[_Key, list[Watch]] = {}

    async def take(
        self,
        opened: OpenedRemote,
        reference: PackageReference,
        layer: Layer,
        target: Path,
        watch: Watch,
    ) -> None:
        """Puts a whole layer of a resolved package at `target`, which does not exist yet.

        Raises the errors of `RemoteFetcher.fetch_package`.
        """
        key = _Key(reference.remote, layer.digest)
        if self._flights.is_running(key):
            self._counters.num_joins += 1
        else:
            self._ledger.check(key.remote, key)
        watches = self._watches.setdefault(key, [])
        watches.append(watch)
        try:
            async with self._flights.join(
                key, lambda: self._bring(opened, reference, layer, key)
            ) as path:
                with storage_errors():
                    os.link(path, target, follow_symlinks=False)
        except RemoteFailure as failure:
            raise failure.to_error(self._ledger.delay_s(key.remote, key)) from failure
        finally:
            watches.remove(watch)
            if not watches:
                self._watches.pop(key, None)

    async def _bring(
        self, opened: OpenedRemote, reference: PackageReference, layer: Layer, key: _Key
    ) -> Path:
        started_s = self._clock_s()
        partial = self._quarantine.begin(key.remote, layer.digest, layer.size_bytes)
        transfer = LayerTransfer(
            opened.source,
            reference,
            layer,
            partial,
            limits=self._limits,
            open_timeout_s=opened.answer_timeout_s,
            counters=self._counters,
            on_bytes=lambda size_bytes: self._tell(key, size_bytes),
        )
        try:
            await in_thread(partial.load)
            async with asyncio.timeout(self._limits.total_s):
                while not await self._attempt(transfer, partial, key):  # noqa: ASYNC110 - a pause
                    await asyncio.sleep(self._ledger.delay_s(key.remote, key) or 0.0)
        except TimeoutError:
            failure = faulty("it is too slow")
            self._ledger.note(key.remote, key, failure)
            self._quarantine.keep(partial)
            raise failure from None
        except BaseException:
            self._quarantine.keep(partial)
            raise
        finally:
            self._counters.transfer_s += self._clock_s() - started_s
        self._ledger.clear(key.remote, key)
        return self._quarantine.finish(partial)

    async def _attempt(self, transfer: LayerTransfer, partial: PartialFile, key: _Key) -> bool:
        """Whether the layer is whole now; False when another try is worth its wait.

        Raises RemoteFailure when it is better to tell those who wait.
        """
        before_bytes = partial.size_bytes
        try:
            await transfer.attempt()
        except RemoteFailure as failure:
            has_moved = partial.size_bytes - before_bytes >= self._limits.rate_bytes
            if has_moved:
                self._ledger.clear(key.remote, key)
            self._ledger.note(key.remote, key, failure)
            # Of corrupt bytes those of an earlier try may be the bad ones; they are gone now.
            is_resumed_and_bad = failure.kind is FailureKind.CORRUPT and before_bytes > 0
            if is_resumed_and_bad or (failure.kind in TRANSIENT and has_moved):
                return False
            raise
        return True

    def _tell(self, key: _Key, size_bytes: int) -> None:
        for watch in tuple(self._watches.get(key, ())):
            watch(size_bytes)
