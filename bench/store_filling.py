"""Fills a stopped store's directory with copies of an adapter it holds, and evicts from it.

A copy has what a registered adapter has: a row, an alias, a certificate and files of its own, whose
names are their hashes. Only nobody verified it, which is what takes the time of a registration. The
store's code that runs here is kept from logging between a benchmark's own lines.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import structlog.testing

from bench.store_process import TENANT
from services.adapter_store.flash.storage import Storage, open_storage
from services.adapter_store.flash.tier import FlashTier
from services.adapter_store.registry.manifest import AdapterManifest, Blob
from services.adapter_store.registry.writer import AdapterQuota, AliasWish
from services.adapter_store.usage import UsageLedger

_STAMP_BYTES = 32
_MAX_ADAPTERS = 1_000_000


def fill(directory: Path, count: int) -> list[float]:
    """Adds copies until the store holds `count` adapters; returns the seconds of each addition.

    Every second copy says it came from a package, so that it may be evicted from flash.
    """
    with structlog.testing.capture_logs(), open_storage(directory) as storage:
        missing = count - storage.reader.num_adapters()
        (model,) = storage.reader.adapters(TENANT, 1)
        certificate = storage.reader.certificate(model.digest) or ""
        files = {blob.name: b"".join(storage.blobs.read(blob.name)) for blob in model.content.blobs}
        return [
            _add(storage, _copy(storage, model, files, is_packaged=number % 2 == 1), certificate)
            for number in range(missing)
        ]


def evict(directory: Path, count: int) -> list[float]:
    """Has the flash tier take a new file when it is full; returns the seconds of each such time.

    At most half of what may go, one each time, the least recently used first.
    """
    with structlog.testing.capture_logs(), open_storage(directory) as storage:
        flash = FlashTier(
            storage.blobs,
            storage.writer,
            UsageLedger(storage.reader.usage()),
            budget_bytes=storage.blobs.total_bytes,
            min_residency_s=0.0,
            held=frozenset,
            busy=frozenset,
            unix_clock_s=time.time,
        )
        num_evictable = len(storage.writer.evictable())
        return [_evict(flash, storage.staging) for _ in range(min(count, num_evictable // 2))]


def _add(storage: Storage, manifest: AdapterManifest, certificate: str) -> float:
    name = f"copy-{manifest.digest.removeprefix('sha256:')[:32]}"
    alias = AliasWish(name=name, may_replace=False, expected_generation=None)
    started_s = time.perf_counter()
    storage.writer.add(
        manifest, certificate, alias=alias, quota=AdapterQuota(max_adapters=_MAX_ADAPTERS)
    )
    return time.perf_counter() - started_s


def _copy(
    storage: Storage, model: AdapterManifest, files: Mapping[str, bytes], *, is_packaged: bool
) -> AdapterManifest:
    digest = f"sha256:{secrets.token_hex(32)}"
    content = replace(
        model.content,
        digest=digest,
        weights=_copy_blob(storage, model.content.weights, files),
        encoded=_copy_blob(storage, model.content.encoded, files),
    )
    return replace(
        model,
        content=content,
        registered_at_s=time.time(),
        package=f"bench/copy@{digest}" if is_packaged else None,
    )


def _copy_blob(storage: Storage, blob: Blob | None, files: Mapping[str, bytes]) -> Blob | None:
    if blob is None:
        return None
    data = files[blob.name][:-_STAMP_BYTES] + os.urandom(_STAMP_BYTES)
    name = hashlib.sha256(data).hexdigest()
    (storage.blobs.directory / name).write_bytes(data)
    return Blob(name=name, size_bytes=len(data))


def _evict(flash: FlashTier, staging: Path) -> float:
    staging.mkdir(exist_ok=True)
    path, data = staging / "arrival", os.urandom(1024)
    path.write_bytes(data)
    arrival = Blob(name=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
    num_before = flash.num_evictions
    started_s = time.perf_counter()
    flash.adopt([(path, arrival)])
    elapsed_s = time.perf_counter() - started_s
    assert flash.num_evictions > num_before
    # The tier is full again: what the eviction freed beyond the arrival is taken off its budget.
    flash.budget_bytes = flash.used_bytes
    return elapsed_s
