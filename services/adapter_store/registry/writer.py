"""Changes of the registry: each a transaction, durable when it returns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from edgelora.adapter_format import is_digest
from edgelora.errors import AlreadyExistsError, QuotaExceededError
from services.adapter_store.names import adapter_not_found
from services.adapter_store.registry.grant_writer import GrantWriter
from services.adapter_store.registry.manifest import AdapterManifest, Alias
from services.adapter_store.registry.rows import ADAPTER_COLUMNS, adapter_row, places
from services.adapter_store.registry.version_link import check_link
from services.adapter_store.transactions import transaction

MAX_ALIASES = 16
"""Of one adapter: names cost storage too, and a page tells all of its adapters' names."""

MAX_VERSIONS = 16
"""Of one adapter: all of them are looked at to choose one."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What a deletion removed."""

    aliases: tuple[str, ...]
    digest: str | None
    """None when only an alias went."""
    unused_blobs: tuple[str, ...]
    """Blobs no adapter refers to any more."""
    lost_by: tuple[str, ...]
    """Tenants whose grants of it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasWish:
    """What a registration wants of an alias."""

    name: str
    may_replace: bool
    """Whether it may point to another adapter now."""
    expected_generation: int | None
    """Only if the alias has it now; 0 expects that there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterQuota:
    """What a tenant may have of its own; what is granted to it does not count."""

    max_adapters: int
    max_bytes: int | None = None
    """Of their stored forms; None for no bound."""


class RegistryWriter(GrantWriter):
    """The connection that changes the registry. Used by one caller at a time, from any thread."""

    def add(
        self,
        manifest: AdapterManifest,
        certificate: str,
        *,
        alias: AliasWish | None,
        example_prompts: Sequence[str] | None = None,
        labels: Sequence[str] = (),
        quota: AdapterQuota,
    ) -> tuple[AdapterManifest, Alias | None, bool]:
        """Adds an adapter, with its card, alias and link to its original: all of it or nothing.

        A digest never has two forms: what another tenant registered before, with this release for
        the same base model, keeps its own. Returns the adapter as stored (the first
        registration wins; a later one replaces the card, the package and the original if it has
        them), the alias, and whether the adapter is new to the tenant. `example_prompts`: those
        of its card; None when it comes without one. `labels`: a classifier's. Raises
        QuotaExceededError, AlreadyExistsError, AdapterNotFoundError when the original is not the
        tenant's, and InvalidRequestError when the adapter can be no version of it.
        """
        with transaction(self._connection):
            self._keep_content(
                manifest.content, certificate, manifest.tenant_id, manifest.tenant_id
            )
            if labels:
                # The content says them: they can be no others for the same digest.
                self._connection.execute(
                    "INSERT OR IGNORE INTO labels (digest, labels) VALUES (?, ?)",
                    (manifest.digest, json.dumps(labels, ensure_ascii=False)),
                )
            is_new = self.get(manifest.tenant_id, manifest.digest) is None
            if is_new:
                self._check_quota(manifest, quota)
                self._connection.execute(
                    f"INSERT INTO adapters ({ADAPTER_COLUMNS}) "  # noqa: S608
                    f"VALUES ({places(ADAPTER_COLUMNS)})",
                    adapter_row(manifest),
                )
            elif manifest.package is not None:
                # Now it can be had again, so it need not stay on flash.
                self._connection.execute(
                    "UPDATE adapters SET package = ? WHERE tenant = ? AND digest = ?",
                    (manifest.package, manifest.tenant_id, manifest.digest),
                )
            if manifest.version_of_digest is not None:
                self._link(manifest, manifest.version_of_digest)
            if example_prompts is not None:
                self._put_card(manifest, example_prompts)
            self._note_change(manifest.tenant_id)
            pointed = None
            if alias is not None:
                self.check_alias(manifest.tenant_id, alias, manifest.digest)
                pointed = self._point(manifest.tenant_id, alias.name, manifest.digest)
            stored = self.get(manifest.tenant_id, manifest.digest)
            assert stored is not None
            return stored, pointed, is_new

    def _check_quota(self, manifest: AdapterManifest, quota: AdapterQuota) -> None:
        if self.num_adapters(manifest.tenant_id) >= quota.max_adapters:
            raise QuotaExceededError(
                f"you may have {quota.max_adapters} adapters and have as many: remove one first",
                field="max_adapters",
                metadata={"max_adapters": str(quota.max_adapters)},
            )
        if quota.max_bytes is None:
            return
        # As this registration has just stored it; others may have stored it before.
        content = self.content(manifest.digest)
        assert content is not None
        if self.stored_bytes(manifest.tenant_id) + content.flash_bytes > quota.max_bytes:
            raise QuotaExceededError(
                f"your adapters may take {quota.max_bytes} bytes, and with this one they would "
                "take more: remove one first",
                field="max_adapter_bytes",
                metadata={"max_adapter_bytes": str(quota.max_bytes)},
            )

    def check_alias(self, tenant_id: str, wish: AliasWish, digest: str | None) -> None:
        """Raises AlreadyExistsError when a registration may not have the alias it wants.

        `digest`: the adapter it is to point to; None while that is not known.
        """
        current = self.alias(tenant_id, wish.name)
        if wish.expected_generation is not None:
            _check_generation(current, wish.expected_generation)
        elif current is not None and current.digest != digest and not wish.may_replace:
            raise AlreadyExistsError(
                "the alias points to another adapter: choose another, or replace it (`--replace`)",
                field="alias",
                metadata={"generation": str(current.generation)},
            )

    def set_alias(
        self, tenant_id: str, name: str, digest: str, expected_generation: int | None
    ) -> Alias:
        """Points a name to one of the tenant's adapters.

        With `expected_generation` only if the alias still has it; 0 expects that there is none.
        Raises AdapterNotFoundError, AlreadyExistsError and QuotaExceededError.
        """
        with transaction(self._connection):
            if self.get(tenant_id, digest) is None:
                self._refuse_granted(tenant_id, digest)
                raise adapter_not_found("digest")
            if expected_generation is not None:
                _check_generation(self.alias(tenant_id, name), expected_generation)
            self._note_change(tenant_id)
            return self._point(tenant_id, name, digest)

    def set_pinned(self, tenant_id: str, digest: str, *, is_pinned: bool, max_pinned: int) -> None:
        """Pins an adapter, or lets it go. Raises QuotaExceededError and AdapterNotFoundError."""
        with transaction(self._connection):
            manifest = self.get(tenant_id, digest)
            if manifest is None:
                self._refuse_granted(tenant_id, digest)
                raise adapter_not_found("adapter")
            if is_pinned and not manifest.is_pinned and self.num_pinned(tenant_id) >= max_pinned:
                raise QuotaExceededError(
                    f"you have pinned {max_pinned} adapters, the most allowed: unpin one first",
                    metadata={"max_pinned": str(max_pinned)},
                )
            self._connection.execute(
                "UPDATE adapters SET is_pinned = ? WHERE tenant = ? AND digest = ?",
                (is_pinned, tenant_id, digest),
            )

    def delete(self, tenant_id: str, reference: str) -> Removal:
        """Removes an alias, or an adapter with its aliases, its card and its links.

        Raises AdapterNotFoundError.
        """
        with transaction(self._connection):
            self._note_change(tenant_id)
            if not is_digest(reference):
                alias = self.alias(tenant_id, reference)
                if alias is None:
                    self._refuse_granted(tenant_id, reference)
                    raise adapter_not_found("adapter")
                self._retire(tenant_id, alias)
                self._connection.execute(
                    "DELETE FROM aliases WHERE tenant = ? AND name = ?", (tenant_id, reference)
                )
                return Removal((reference,), None, (), ())
            manifest = self.get(tenant_id, reference)
            if manifest is None:
                self._refuse_granted(tenant_id, reference)
                raise adapter_not_found("adapter")
            ended = self._end_grants_of(tenant_id, reference)
            aliases = self.aliases_of(tenant_id, reference)
            for alias in aliases:
                self._retire(tenant_id, alias)
            names = tuple(alias.name for alias in aliases)
            self._connection.execute(
                "DELETE FROM adapters WHERE tenant = ? AND digest = ?", (tenant_id, reference)
            )
            if self.owners(reference):
                return Removal(names, reference, (), ended)
            self._connection.execute("DELETE FROM contents WHERE digest = ?", (reference,))
            blobs = self.unused(blob.name for blob in manifest.content.blobs)
            return Removal(names, reference, blobs, ended)

    def _link(self, manifest: AdapterManifest, version_of: str) -> None:
        original = self.get(manifest.tenant_id, version_of)
        if original is None:
            raise adapter_not_found("version_of_digest")
        has_versions = bool(self.versions(manifest.tenant_id, manifest.digest))
        check_link(original, manifest.content, has_versions=has_versions)
        known = {each.digest for each in self.versions(manifest.tenant_id, version_of)}
        if len(known) >= MAX_VERSIONS and manifest.digest not in known:
            raise QuotaExceededError(
                f"the adapter has {MAX_VERSIONS} lower-rank versions, the most allowed: "
                "remove one first",
                metadata={"max_versions": str(MAX_VERSIONS)},
            )
        self._connection.execute(
            "INSERT INTO versions (tenant, digest, version_of) VALUES (?, ?, ?) "
            "ON CONFLICT (tenant, digest) DO UPDATE SET version_of = excluded.version_of",
            (manifest.tenant_id, manifest.digest, version_of),
        )

    def _put_card(self, manifest: AdapterManifest, example_prompts: Sequence[str]) -> None:
        key = manifest.tenant_id, manifest.digest
        self._connection.execute(
            "UPDATE adapters SET description = ? WHERE tenant = ? AND digest = ?",
            (manifest.description, *key),
        )
        self._connection.execute(
            "INSERT INTO cards (tenant, digest, example_prompts) VALUES (?, ?, ?) "
            "ON CONFLICT (tenant, digest) DO UPDATE SET example_prompts = excluded.example_prompts",
            (*key, json.dumps(example_prompts, ensure_ascii=False)),
        )

    def _point(self, tenant_id: str, name: str, digest: str) -> Alias:
        if self.find_granted(tenant_id, name) is not None:
            raise AlreadyExistsError(
                "the name belongs to an adapter that was granted to you: choose another",
                field="alias",
            )
        names = {alias.name for alias in self.aliases_of(tenant_id, digest)}
        if len(names) >= MAX_ALIASES and name not in names:
            raise QuotaExceededError(
                f"the adapter has {MAX_ALIASES} aliases, the most allowed: remove one first",
                metadata={"max_aliases": str(MAX_ALIASES)},
            )
        row = self._connection.execute(
            "INSERT INTO aliases (tenant, name, digest, generation) VALUES (?1, ?2, ?3, 1 + "
            "coalesce((SELECT generation FROM removed_generations WHERE tenant = ?1), 0)) "
            "ON CONFLICT (tenant, name) DO UPDATE SET digest = excluded.digest, "
            "generation = generation + (digest <> excluded.digest) "
            "RETURNING name, digest, generation",
            (tenant_id, name, digest),
        ).fetchone()
        return Alias(name=row[0], digest=row[1], generation=row[2])


def _check_generation(current: Alias | None, expected: int) -> None:
    generation = 0 if current is None else current.generation
    if expected != generation:
        raise AlreadyExistsError(
            f"the alias has generation {generation}, not the expected one: "
            "read it again, then decide",
            field="expected_generation",
            metadata={"generation": str(generation)},
        )
