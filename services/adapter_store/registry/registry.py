"""The truth about adapters and aliases, in SQLite.

Write-ahead log with full synchronisation: what a call returned survives a power cut. Every lookup
is answered by an index.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from edgelora.adapter_format import is_digest
from edgelora.adapter_names import AUTO
from services.adapter_store.registry.grant_reader import GrantReader
from services.adapter_store.registry.manifest import (
    AdapterContent,
    AdapterManifest,
    Alias,
    Candidate,
)
from services.adapter_store.registry.page_position import PagePosition, page_of
from services.adapter_store.registry.rows import (
    CANDIDATES,
    CONTENT_COLUMNS,
    EVICTABLE_COLUMNS,
    FLASH_BYTES,
    IS_EVICTABLE,
    SELECT_MANIFEST,
    EvictableContent,
    candidate_of,
    content_of,
    evictable_of,
    manifest_of,
)
from services.adapter_store.registry.schema import migrate


class Registry(GrantReader):
    """One connection to the registry. Readers see a writer's last commit and never wait for it.

    Used by one caller at a time, from any thread.
    """

    def __init__(self, path: Path) -> None:
        """Opens or creates the file and brings its schema up to date.

        Raises sqlite3.DatabaseError when the file is damaged, OSError when a newer release wrote
        it.
        """
        self._connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=5.0
        )
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute("PRAGMA foreign_keys=ON")
            migrate(self._connection)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def check(self) -> None:
        """Raises sqlite3.DatabaseError when the file is damaged."""
        verdict = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError("the registry failed its integrity check")

    def get(self, tenant_id: str, digest: str) -> AdapterManifest | None:
        """One adapter of a tenant."""
        row = self._connection.execute(
            f"{SELECT_MANIFEST} WHERE tenant = ? AND digest = ?", (tenant_id, digest)
        ).fetchone()
        return None if row is None else manifest_of(row)

    def find(self, tenant_id: str, reference: str) -> tuple[AdapterManifest, Alias | None] | None:
        """One adapter a tenant may use by digest, or by alias and then with the alias.

        Its own come first; then those granted to it, as it sees them.
        """
        own = self.find_own(tenant_id, reference)
        if own is not None:
            return own
        granted = self.find_granted(tenant_id, reference)
        if granted is None:
            return None
        return granted.seen, None if is_digest(reference) else granted.grant.alias

    def find_own(
        self, tenant_id: str, reference: str
    ) -> tuple[AdapterManifest, Alias | None] | None:
        """One adapter of a tenant itself by digest, or by alias and then with the alias."""
        if is_digest(reference):
            manifest = self.get(tenant_id, reference)
            return None if manifest is None else (manifest, None)
        # One statement: between two of them the alias could move, and what it pointed to go.
        row = self._connection.execute(
            f"SELECT generation, found.* FROM aliases JOIN ({SELECT_MANIFEST}) AS found "  # noqa: S608
            "USING (tenant, digest) WHERE tenant = ? AND name = ?",
            (tenant_id, reference),
        ).fetchone()
        if row is None:
            return None
        manifest = manifest_of(row[1:])
        return manifest, Alias(name=reference, digest=manifest.digest, generation=row[0])

    def alias(self, tenant_id: str, name: str) -> Alias | None:
        """One alias of a tenant."""
        row = self._connection.execute(
            "SELECT name, digest, generation FROM aliases WHERE tenant = ? AND name = ?",
            (tenant_id, name),
        ).fetchone()
        return None if row is None else Alias(name=row[0], digest=row[1], generation=row[2])

    def adapters(
        self, tenant_id: str, limit: int, after: PagePosition | None = None
    ) -> list[AdapterManifest]:
        """At most `limit` adapters of a tenant, newest first, from the one that follows `after`."""
        where, values = page_of("registered_at", "digest", after)
        rows = self._connection.execute(
            f"{SELECT_MANIFEST} WHERE tenant = ?{where} "
            "ORDER BY registered_at DESC, digest LIMIT ?",
            (tenant_id, *values, limit),
        )
        return [manifest_of(row) for row in rows]

    def aliases_of(self, tenant_id: str, digest: str) -> list[Alias]:
        """A tenant's aliases of one adapter, by name."""
        # Left alone, SQLite would walk all of the tenant's aliases to have them in order.
        rows = self._connection.execute(
            "SELECT name, digest, generation FROM aliases INDEXED BY aliases_by_digest "
            "WHERE tenant = ? AND digest = ? ORDER BY name",
            (tenant_id, digest),
        )
        return [Alias(name=row[0], digest=row[1], generation=row[2]) for row in rows]

    def names_of(self, tenant_id: str, digest: str) -> list[Alias]:
        """All names an adapter has for a tenant, its own and that of a grant."""
        granted = self.find_granted(tenant_id, digest)
        names = self.aliases_of(tenant_id, digest)
        if granted is not None and granted.grant.alias is not None:
            names.append(granted.grant.alias)
        return sorted(names, key=lambda alias: alias.name)

    def example_prompts(self, tenant_id: str, digest: str) -> tuple[str, ...]:
        """Those of the card a tenant gave an adapter; empty when it gave none."""
        row = self._connection.execute(
            "SELECT example_prompts FROM cards WHERE tenant = ? AND digest = ?",
            (tenant_id, digest),
        ).fetchone()
        return () if row is None else tuple(json.loads(row[0]))

    def versions(self, tenant_id: str, digest: str) -> list[AdapterManifest]:
        """A tenant's lower-rank versions of one of its adapters, highest rank first."""
        rows = self._connection.execute(
            f"{SELECT_MANIFEST} WHERE tenant = ? AND version_of = ? "
            "ORDER BY rank DESC, registered_at DESC, digest",
            (tenant_id, digest),
        )
        return [manifest_of(row) for row in rows]

    def change_number(self, tenant_id: str) -> int:
        """Grows with every change of a tenant's candidates."""
        row = self._connection.execute(
            "SELECT number FROM changes WHERE tenant = ?", (tenant_id,)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def candidates(self, tenant_id: str, base_digest: str | None, limit: int) -> list[Candidate]:
        """Those of a tenant's adapters for a base model that have an alias or a card.

        At most `limit`, newest first; none without a base model. Lower-rank versions stand in for
        their original only.
        """
        rows = self._connection.execute(
            CANDIDATES, {"tenant": tenant_id, "base": base_digest, "auto": AUTO, "limit": limit}
        )
        return [candidate_of(row) for row in rows]

    def labels(self, digest: str) -> tuple[str, ...]:
        """Those of a classifier, in the order of its outputs; empty for what is none."""
        row = self._connection.execute(
            "SELECT labels FROM labels WHERE digest = ?", (digest,)
        ).fetchone()
        return () if row is None else tuple(json.loads(row[0]))

    def certificate(self, digest: str) -> str | None:
        """The certificate of a content, as canonical JSON."""
        row = self._connection.execute(
            "SELECT document FROM certificates WHERE digest = ?", (digest,)
        ).fetchone()
        return None if row is None else str(row[0])

    def is_certified_for(self, tenant_id: str, digest: str) -> bool:
        """Whether a content's certificate is of this tenant's own files."""
        row = self._connection.execute(
            "SELECT tenant FROM certificates WHERE digest = ?", (digest,)
        ).fetchone()
        return row is not None and row[0] == tenant_id

    def num_adapters(self, tenant_id: str | None = None) -> int:
        """How many adapters a tenant has, or all together."""
        if tenant_id is None:
            row = self._connection.execute("SELECT count(*) FROM adapters").fetchone()
        else:
            query = "SELECT count(*) FROM adapters WHERE tenant = ?"
            row = self._connection.execute(query, (tenant_id,)).fetchone()
        return int(row[0])

    def stored_bytes(self, tenant_id: str) -> int:
        """What the stored forms of a tenant's own adapters take, each counted whole."""
        row = self._connection.execute(
            f"SELECT total({FLASH_BYTES}) FROM adapters JOIN contents USING (digest) "  # noqa: S608
            "WHERE tenant = ?",
            (tenant_id,),
        ).fetchone()
        return int(row[0])

    def registered(self, digests: Iterable[str]) -> set[str]:
        """Those of the digests that any tenant has."""
        query = "SELECT 1 FROM contents WHERE digest = ?"
        return {d for d in digests if self._connection.execute(query, (d,)).fetchone() is not None}

    def digests(self, limit: int) -> list[str]:
        """The first contents, by digest."""
        rows = self._connection.execute(
            "SELECT digest FROM contents ORDER BY digest LIMIT ?", (limit,)
        )
        return [row[0] for row in rows]

    def owners(self, digest: str) -> list[str]:
        """The tenants that have an adapter, by name."""
        rows = self._connection.execute(
            "SELECT tenant FROM adapters WHERE digest = ? ORDER BY tenant", (digest,)
        )
        return [row[0] for row in rows]

    def pinned(self) -> list[str]:
        """Digests any tenant has pinned, sorted."""
        rows = self._connection.execute(
            "SELECT DISTINCT digest FROM adapters WHERE is_pinned ORDER BY digest"
        )
        return [row[0] for row in rows]

    def num_pinned(self, tenant_id: str) -> int:
        """How many adapters a tenant has pinned."""
        query = (
            "SELECT count(*) FROM adapters INDEXED BY adapters_pinned "
            "WHERE is_pinned AND tenant = ?"
        )
        return int(self._connection.execute(query, (tenant_id,)).fetchone()[0])

    def evictable(self) -> list[EvictableContent]:
        """Contents on flash that every owner could get from a package again, and none pinned.

        Scans the tables.
        """
        rows = self._connection.execute(
            f"SELECT {EVICTABLE_COLUMNS} FROM adapters JOIN contents USING (digest) "  # noqa: S608
            f"WHERE is_on_flash GROUP BY digest HAVING {IS_EVICTABLE}"
        )
        return [evictable_of(row) for row in rows]

    def evictable_content(self, digest: str) -> EvictableContent | None:
        """One of `evictable`."""
        row = self._connection.execute(
            f"SELECT {EVICTABLE_COLUMNS} FROM adapters JOIN contents USING (digest) "  # noqa: S608
            f"WHERE digest = ? AND is_on_flash GROUP BY digest HAVING {IS_EVICTABLE}",
            (digest,),
        ).fetchone()
        return None if row is None else evictable_of(row)

    def blobs(self) -> set[str]:
        """Every blob that has to be on flash. Scans the table; for the start only."""
        rows = self._connection.execute(
            "SELECT config_blob, weights_blob, encoded_blob, head_blob FROM contents "
            "WHERE is_on_flash"
        )
        return {name for row in rows for name in row if name is not None}

    def unused(self, blobs: Iterable[str]) -> tuple[str, ...]:
        """Those of the blobs that no content on flash refers to."""
        queries = [
            f"SELECT 1 FROM contents WHERE {column} = ? AND is_on_flash LIMIT 1"  # noqa: S608
            for column in ("config_blob", "weights_blob", "encoded_blob", "head_blob")
        ]
        execute = self._connection.execute
        return tuple(
            blob
            for blob in blobs
            if all(execute(query, (blob,)).fetchone() is None for query in queries)
        )

    def usage(self) -> dict[tuple[str, str], str]:
        """The counters written last, by tenant and digest."""
        rows = self._connection.execute("SELECT tenant, digest, counters FROM usage")
        return {(row[0], row[1]): row[2] for row in rows}

    def content(self, digest: str) -> AdapterContent | None:
        """What is known of a content."""
        row = self._connection.execute(
            f"SELECT {CONTENT_COLUMNS} FROM contents WHERE digest = ?",  # noqa: S608
            (digest,),
        ).fetchone()
        return None if row is None else content_of(row)
