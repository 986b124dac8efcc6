"""What a tenant wants of an adapter it brings."""

from __future__ import annotations

from dataclasses import dataclass

from services.adapter_store.registry.writer import AliasWish


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How an adapter is to be kept, as far as its files do not say."""

    alias: AliasWish | None
    description: str
    """Empty: the card's."""
    version_of_digest: str | None = None
    """The tenant's adapter that this one is a lower-rank version of."""
