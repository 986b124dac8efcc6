"""The truth about adapters and aliases, in SQLite.

Write-ahead log with full synchronisation: what a call returned survives a power cut. Every lookup
is answered by an index.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgelora.adapter_format import is_digest
from edgelora.errors import AlreadyExistsError, QuotaExceededError
from services.adapter_store.manifest import AdapterManifest, Alias
from services.adapter_store.names import adapter_not_found
from services.adapter_store.registry_schema import migrate

_COLUMNS = (
    "tenant, digest, base_digest, rank, alpha, target_modules, num_parameters, config_blob, "
    "weights_blob, config_bytes, weights_bytes, registered_at, description"
)


@dataclass(frozen=True, slots=True)
class Removal:
    """What a deletion removed."""

    aliases: tuple[str, ...]
    digest: str | None
    """None when only an alias went."""
    unused_blobs: tuple[str, ...]
    """Blobs no tenant refers to any more."""


class Registry:
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
            f"SELECT {_COLUMNS} FROM adapters WHERE tenant = ? AND digest = ?",  # noqa: S608
            (tenant_id, digest),
        ).fetchone()
        return None if row is None else _manifest(row)

    def find(self, tenant_id: str, reference: str) -> AdapterManifest | None:
        """One adapter of a tenant, by alias or digest."""
        if is_digest(reference):
            return self.get(tenant_id, reference)
        alias = self.alias(tenant_id, reference)
        return None if alias is None else self.get(tenant_id, alias.digest)

    def alias(self, tenant_id: str, name: str) -> Alias | None:
        """One alias of a tenant."""
        row = self._connection.execute(
            "SELECT name, digest, generation FROM aliases WHERE tenant = ? AND name = ?",
            (tenant_id, name),
        ).fetchone()
        return None if row is None else Alias(name=row[0], digest=row[1], generation=row[2])

    def adapters(self, tenant_id: str) -> list[AdapterManifest]:
        """A tenant's adapters, newest first."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM adapters WHERE tenant = ? "  # noqa: S608
            "ORDER BY registered_at DESC, digest",
            (tenant_id,),
        )
        return [_manifest(row) for row in rows]

    def aliases(self, tenant_id: str) -> list[Alias]:
        """A tenant's aliases by name."""
        rows = self._connection.execute(
            "SELECT name, digest, generation FROM aliases WHERE tenant = ? ORDER BY name",
            (tenant_id,),
        )
        return [Alias(name=row[0], digest=row[1], generation=row[2]) for row in rows]

    def num_adapters(self, tenant_id: str) -> int:
        """How many adapters a tenant has."""
        query = "SELECT count(*) FROM adapters WHERE tenant = ?"
        return int(self._connection.execute(query, (tenant_id,)).fetchone()[0])

    def registered(self, digests: Iterable[str]) -> set[str]:
        """Those of the digests that any tenant has."""
        query = "SELECT 1 FROM adapters WHERE digest = ? LIMIT 1"
        return {d for d in digests if self._connection.execute(query, (d,)).fetchone() is not None}

    def blobs(self) -> set[str]:
        """Every blob any adapter refers to. Scans the table; for the start only."""
        query = "SELECT config_blob FROM adapters UNION SELECT weights_blob FROM adapters"
        return {row[0] for row in self._connection.execute(query)}

    def add(
        self,
        manifest: AdapterManifest,
        *,
        alias: str | None,
        replace_alias: bool,
        max_adapters: int,
    ) -> tuple[AdapterManifest, Alias | None, bool]:
        """Adds an adapter, and points an alias to it, both or neither.

        Returns the adapter as stored (the first registration wins), the alias, and whether the
        adapter is new. Raises QuotaExceededError and AlreadyExistsError.
        """
        with self._transaction():
            stored = self.get(manifest.tenant_id, manifest.digest)
            if stored is None:
                self.check_quota(manifest.tenant_id, max_adapters)
                self._insert(manifest)
            pointed = None
            if alias is not None:
                self.check_alias_free(manifest.tenant_id, alias, manifest.digest, replace_alias)
                pointed = self._point(manifest.tenant_id, alias, manifest.digest)
            return stored or manifest, pointed, stored is None

    def check_quota(self, tenant_id: str, max_adapters: int) -> None:
        """Raises QuotaExceededError when a tenant may not add another adapter."""
        if self.num_adapters(tenant_id) >= max_adapters:
            raise QuotaExceededError(
                f"you have {max_adapters} adapters, the most allowed: remove one first",
                metadata={"max_adapters": str(max_adapters)},
            )

    def check_alias_free(
        self, tenant_id: str, name: str, digest: str | None, replace_alias: bool
    ) -> None:
        """Raises AlreadyExistsError when a name is taken by another adapter and may not move."""
        current = self.alias(tenant_id, name)
        if current is not None and current.digest != digest and not replace_alias:
            raise AlreadyExistsError(
                "the alias points to another adapter: choose another, or ask to replace it",
                field="alias",
                metadata={"generation": str(current.generation)},
            )

    def set_alias(
        self, tenant_id: str, name: str, digest: str, expected_generation: int | None
    ) -> Alias:
        """Points a name to one of the tenant's adapters.

        With `expected_generation` only if the alias still has it; 0 expects that there is none.
        Raises AdapterNotFoundError and AlreadyExistsError.
        """
        with self._transaction():
            if self.get(tenant_id, digest) is None:
                raise adapter_not_found("digest")
            current = self.alias(tenant_id, name)
            generation = 0 if current is None else current.generation
            if expected_generation is not None and expected_generation != generation:
                raise AlreadyExistsError(
                    f"the alias has generation {generation}, not the expected one: "
                    "read it again, then decide",
                    field="expected_generation",
                    metadata={"generation": str(generation)},
                )
            return self._point(tenant_id, name, digest)

    def delete(self, tenant_id: str, reference: str) -> Removal:
        """Removes an alias, or an adapter with all its aliases.

        Raises AdapterNotFoundError.
        """
        with self._transaction():
            if not is_digest(reference):
                if self.alias(tenant_id, reference) is None:
                    raise adapter_not_found("adapter")
                self._connection.execute(
                    "DELETE FROM aliases WHERE tenant = ? AND name = ?", (tenant_id, reference)
                )
                return Removal((reference,), None, ())
            manifest = self.get(tenant_id, reference)
            if manifest is None:
                raise adapter_not_found("adapter")
            names = self._connection.execute(
                "SELECT name FROM aliases WHERE tenant = ? AND digest = ? ORDER BY name",
                (tenant_id, reference),
            ).fetchall()
            self._connection.execute(
                "DELETE FROM adapters WHERE tenant = ? AND digest = ?", (tenant_id, reference)
            )
            blobs = self.unused((manifest.config_blob, manifest.weights_blob))
            return Removal(tuple(row[0] for row in names), reference, blobs)

    def unused(self, blobs: Sequence[str]) -> tuple[str, ...]:
        """Those of the blobs no adapter refers to."""
        config = "SELECT 1 FROM adapters WHERE config_blob = ? LIMIT 1"
        weights = "SELECT 1 FROM adapters WHERE weights_blob = ? LIMIT 1"
        execute = self._connection.execute
        return tuple(
            blob
            for blob in blobs
            if execute(config, (blob,)).fetchone() is None
            and execute(weights, (blob,)).fetchone() is None
        )

    def _insert(self, manifest: AdapterManifest) -> None:
        self._connection.execute(
            f"INSERT INTO adapters ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608
            (
                manifest.tenant_id,
                manifest.digest,
                manifest.base_digest,
                manifest.rank,
                manifest.alpha,
                json.dumps(manifest.target_modules),
                manifest.num_parameters,
                manifest.config_blob,
                manifest.weights_blob,
                manifest.config_bytes,
                manifest.weights_bytes,
                manifest.registered_at_s,
                manifest.description,
            ),
        )

    def _point(self, tenant_id: str, name: str, digest: str) -> Alias:
        row = self._connection.execute(
            "INSERT INTO aliases (tenant, name, digest, generation) VALUES (?, ?, ?, 1) "
            "ON CONFLICT (tenant, name) DO UPDATE SET digest = excluded.digest, "
            "generation = generation + (digest <> excluded.digest) "
            "RETURNING name, digest, generation",
            (tenant_id, name, digest),
        ).fetchone()
        return Alias(name=row[0], digest=row[1], generation=row[2])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after some storage errors.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def _manifest(row: Sequence[Any]) -> AdapterManifest:
    return AdapterManifest(
        tenant_id=row[0],
        digest=row[1],
        base_digest=row[2],
        rank=row[3],
        alpha=row[4],
        target_modules=tuple(json.loads(row[5])),
        num_parameters=row[6],
        config_blob=row[7],
        weights_blob=row[8],
        config_bytes=row[9],
        weights_bytes=row[10],
        registered_at_s=row[11],
        description=row[12],
    )
