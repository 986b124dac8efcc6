"""Grants as the registry has them."""

from __future__ import annotations

import sqlite3

from edgelora.adapter_format import is_digest
from services.adapter_store.registry.grants import (
    GRANT_COLUMNS,
    SELECT_GRANTED,
    Grant,
    GrantedAdapter,
    grant_of,
    granted_of,
)
from services.adapter_store.registry.manifest import AdapterManifest
from services.adapter_store.registry.page_position import PagePosition, page_of


class GrantReader:
    """The part of Registry that reads grants."""

    _connection: sqlite3.Connection

    def find_granted(self, tenant_id: str, reference: str) -> GrantedAdapter | None:
        """One adapter granted to a tenant, by digest or alias."""
        column = "digest" if is_digest(reference) else "alias"
        row = self._connection.execute(
            f"{SELECT_GRANTED} WHERE grants.tenant = ? AND grants.{column} = ?",
            (tenant_id, reference),
        ).fetchone()
        return None if row is None else granted_of(row)

    def granted(
        self, tenant_id: str, limit: int, after: PagePosition | None = None
    ) -> list[AdapterManifest]:
        """At most `limit` adapters granted to a tenant that it has not itself, as it sees them.

        Newest grant first, from the one that follows `after`.
        """
        where, values = page_of("grants.granted_at", "grants.digest", after)
        rows = self._connection.execute(
            f"{SELECT_GRANTED} WHERE grants.tenant = ?{where} AND NOT EXISTS "  # noqa: S608
            "(SELECT 1 FROM adapters AS own "
            "WHERE own.tenant = grants.tenant AND own.digest = grants.digest) "
            "ORDER BY grants.granted_at DESC, grants.digest LIMIT ?",
            (tenant_id, *values, limit),
        )
        return [granted_of(row).seen for row in rows]

    def grants(self, tenant_id: str | None = None) -> list[Grant]:
        """The grants of a tenant, or of all, by tenant and digest."""
        where, values = ("", ()) if tenant_id is None else ("WHERE tenant = ?", (tenant_id,))
        rows = self._connection.execute(
            f"SELECT {GRANT_COLUMNS} FROM grants {where} ORDER BY tenant, digest",  # noqa: S608
            values,
        )
        return [grant_of(row) for row in rows]

    def grants_of(self, owner_id: str) -> list[Grant]:
        """The grants of an owner's adapters."""
        rows = self._connection.execute(
            f"SELECT {GRANT_COLUMNS} FROM grants WHERE owner = ?",  # noqa: S608
            (owner_id,),
        )
        return [grant_of(row) for row in rows]
