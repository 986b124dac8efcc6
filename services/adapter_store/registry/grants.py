"""Grants: adapters of one tenant that the operator lets another one use. Pure.

Who holds a grant may resolve the adapter, by its digest and by the alias the operator chose, and
change nothing of it. A grant ends with its withdrawal, or with the owner's adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from services.adapter_store.registry.manifest import AdapterManifest, Alias
from services.adapter_store.registry.rows import SELECT_MANIFEST, manifest_of

MAX_GRANTS = 256
"""To one tenant: all of them are candidates of its router."""
GRANT_COLUMNS = "tenant, digest, owner, alias, generation, granted_at"
_NUM_GRANT_COLUMNS = 6
SELECT_GRANTED = (
    "SELECT grants.tenant, grants.digest, grants.owner, grants.alias, grants.generation, "  # noqa: S608
    f"grants.granted_at, found.* FROM grants JOIN ({SELECT_MANIFEST}) AS found "
    "ON found.tenant = grants.owner AND found.digest = grants.digest"
)
"""Rows for `granted_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One tenant may use an adapter of another."""

    tenant_id: str
    digest: str
    owner_id: str
    name: str | None
    """Alias in the namespace of `tenant_id`."""
    generation: int
    """Of the alias; see `Alias`."""
    granted_at_s: float
    """Unix time."""

    @property
    def alias(self) -> Alias | None:
        """The name as an alias of `tenant_id`."""
        if self.name is None:
            return None
        return Alias(name=self.name, digest=self.digest, generation=self.generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedAdapter:
    """A grant, and the adapter it is of."""

    grant: Grant
    owned: AdapterManifest
    """As its owner has it."""

    @property
    def seen(self) -> AdapterManifest:
        """As who holds the grant sees it: the content, and nothing its owner says of it."""
        return replace(
            self.owned,
            tenant_id=self.grant.tenant_id,
            granted_by=self.grant.owner_id,
            registered_at_s=self.grant.granted_at_s,
            description="",
            package=None,
            parent_digest=None,
            is_pinned=False,
            version_of_digest=None,
        )


def grant_of(row: Sequence[Any]) -> Grant:
    """A row of GRANT_COLUMNS."""
    tenant_id, digest, owner_id, name, generation, granted_at_s = row
    return Grant(
        tenant_id=tenant_id,
        digest=digest,
        owner_id=owner_id,
        name=name,
        generation=generation,
        granted_at_s=granted_at_s,
    )


def granted_of(row: Sequence[Any]) -> GrantedAdapter:
    """A row of SELECT_GRANTED."""
    return GrantedAdapter(
        grant=grant_of(row[:_NUM_GRANT_COLUMNS]), owned=manifest_of(row[_NUM_GRANT_COLUMNS:])
    )
