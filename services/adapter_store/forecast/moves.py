"""Moving an adapter a tier closer ahead of use: what it takes, and when it is worth it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.adapter_store.forecast.budget import Spending
from services.adapter_store.forecast.settings import WarmUpSettings

MAX_MOVES = 8
"""Most adapters of one plan; the next plan goes on."""
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAdapter:
    """Where an adapter lies."""

    flash_bytes: int
    is_on_flash: bool
    package_bytes: int | None
    """What bringing it from its remote moves; None when it has none."""


Stored = Callable[[str, str], StoredAdapter | None]
"""Tenant and digest -> the adapter; None when it is gone, or of another base model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One adapter to bring a tier closer."""

    tenant_id: str
    digest: str
    evict_digests: tuple[str, ...]
    """What goes for it, and nothing else; in memory at most one."""
    chance: float
    spending: Spending


def load_spending(adapter: StoredAdapter, load_s: float, settings: WarmUpSettings) -> Spending:
    """What loading from flash into a slot takes."""
    joules = load_s * settings.busy_watts
    joules += adapter.flash_bytes / _MIB * settings.joules_per_flash_mib
    return Spending(adapter.flash_bytes, joules)


def restore_spending(package_bytes: int, restore_s: float, settings: WarmUpSettings) -> Spending:
    """What bringing a package to flash takes; most of its time goes into verifying and encoding."""
    joules = restore_s * settings.busy_watts
    joules += package_bytes / _MIB * settings.joules_per_remote_mib
    return Spending(package_bytes, joules)


def is_worth_it(
    chance: float, saved_s: float, spending: Spending, settings: WarmUpSettings
) -> bool:
    """Whether the waiting that is probably saved is worth the energy."""
    return chance * saved_s >= spending.joules * settings.min_saving_s_per_joule
