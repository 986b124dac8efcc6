"""The head of the library for the operator: contents of all tenants, the most used first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from services.adapter_store.library import ListedAdapter
from services.adapter_store.registry.registry import Registry
from services.adapter_store.usage import UsageLedger

MAX_ENTRIES = 256
_MAX_NAMES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """One content, whoever has it."""

    names: tuple[str, ...]
    """TENANT/NAME of its aliases, at most 8."""
    num_tenants: int
    adapter: ListedAdapter
    """As the first of its owners by name has it."""


class LibraryHead:
    """Reads the most used contents."""

    def __init__(self, registry: Registry, ledger: UsageLedger) -> None:
        self._registry = registry
        self._ledger = ledger

    def entries(self, limit: int) -> Sequence[LibraryEntry]:
        """At most `limit` contents: by their hits, then by when they were last used; after them
        those that nobody used since the store counts, by digest."""
        used = (
            entry
            for digest in self._ledger.most_used(2 * limit)
            if (entry := self._entry(digest)) is not None
        )
        head = list(islice(used, limit))
        if len(head) < limit:
            seen = {entry.adapter.manifest.digest for entry in head}
            for digest in self._registry.digests(limit):
                if digest not in seen and (entry := self._entry(digest)) is not None:
                    head.append(entry)
        return head[:limit]

    def num_adapters(self) -> int:
        """Adapters of all tenants together."""
        return self._registry.num_adapters()

    def _entry(self, digest: str) -> LibraryEntry | None:
        owners = self._registry.owners(digest)
        manifest = self._registry.get(owners[0], digest) if owners else None
        if manifest is None:
            return None  # deleted since it was counted
        names = (
            f"{tenant_id}/{alias.name}"
            for tenant_id in owners
            for alias in self._registry.aliases_of(tenant_id, digest)
        )
        return LibraryEntry(
            names=tuple(islice(names, _MAX_NAMES)),
            num_tenants=len(owners),
            adapter=ListedAdapter(manifest=manifest, aliases=()),
        )
