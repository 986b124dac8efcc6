"""Puts a fetcher together for a store's directory."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edgelora.adapter_format import MAX_CONFIG_BYTES, MAX_HEAD_BYTES
from edgelora.adapter_format.card import MAX_CARD_BYTES
from services.adapter_store.remotes.fetcher import RemoteFetcher
from services.adapter_store.remotes.name_lookup import Resolve, system_resolve
from services.adapter_store.remotes.opening import RemoteOpening
from services.adapter_store.remotes.package import PackageLimits
from services.adapter_store.remotes.quarantine import Quarantine
from services.adapter_store.remotes.remotes_file import Remote
from services.adapter_store.remotes.tenant_slots import TenantSlots
from services.adapter_store.remotes.transfer import TransferLimits
from services.adapter_store.remotes.try_book import RetryPolicy, TryBook
from services.adapter_store.verification.probes import MAX_PROBE_BYTES

_SLOTS_PER_TENANT = 2
_MAX_WAITING_PER_TENANT = 16
_PARTIALS_MAX_AGE_S = 7 * 24 * 3600.0


def assemble_fetcher(
    remotes: Mapping[str, Remote],
    directory: Path,
    *,
    max_weights_bytes: int,
    max_partial_bytes: int,
    min_free_bytes: int,
    transfer: TransferLimits = TransferLimits(),  # noqa: B008 - frozen
    retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    web_timeout_s: float = 4.0,
    clock_s: Callable[[], float] = time.monotonic,
    unix_clock_s: Callable[[], float] = time.time,
    random_0_1: Callable[[], float] = random.random,
    resolve: Resolve = system_resolve,
) -> RemoteFetcher:
    """A fetcher with a quarantine in `directory`, swept of what a crash left.

    `directory` lies on the file system of the blobs; its parent exists. `max_partial_bytes` bounds
    what unfinished transfers may occupy, running ones included. Raises OSError.
    """
    quarantine = Quarantine(
        directory,
        max_partial_bytes=max_partial_bytes,
        max_age_s=_PARTIALS_MAX_AGE_S,
        min_free_bytes=min_free_bytes,
        unix_clock_s=unix_clock_s,
    )
    quarantine.sweep()
    limits = PackageLimits(
        config=MAX_CONFIG_BYTES,
        weights=max_weights_bytes,
        probe=MAX_PROBE_BYTES,
        card=MAX_CARD_BYTES,
        head=MAX_HEAD_BYTES,
    )
    opening = RemoteOpening(
        limits=limits,
        clock_s=clock_s,
        unix_clock_s=unix_clock_s,
        resolve=resolve,
        web_timeout_s=web_timeout_s,
    )
    return RemoteFetcher(
        remotes,
        opening,
        quarantine,
        slots=TenantSlots(num_slots=_SLOTS_PER_TENANT, max_waiting=_MAX_WAITING_PER_TENANT),
        book=TryBook(retry, random_0_1),
        limits=transfer,
        clock_s=clock_s,
    )
