"""Changes of what is true of an adapter for all tenants."""

from __future__ import annotations

import json
from collections.abc import Mapping

from services.adapter_store.registry.manifest import AdapterContent
from services.adapter_store.registry.registry import Registry
from services.adapter_store.registry.rows import CONTENT_COLUMNS, content_row, places
from services.adapter_store.transactions import transaction


class ContentWriter(Registry):
    """The part of RegistryWriter that no tenant asks for."""

    def evict(self, digest: str) -> tuple[str, ...]:
        """Notes that a content leaves flash; returns the blobs nothing refers to any more."""
        with transaction(self._connection):
            content = self.content(digest)
            if content is None or not content.is_on_flash:
                return ()
            self._connection.execute(
                "UPDATE contents SET is_on_flash = 0 WHERE digest = ?", (digest,)
            )
            return self.unused(blob.name for blob in content.blobs)

    def restore(
        self, content: AdapterContent, certificate: str, *, certified_for: str | None
    ) -> None:
        """Notes that a content is back on flash. It may have been deleted meanwhile.

        `certified_for`: the tenant whose files were verified; None when they were not.
        """
        with transaction(self._connection):
            if self.content(content.digest) is not None:
                self._keep_content(content, certificate, None, certified_for)

    def write_usage(self, counters: Mapping[tuple[str, str], str]) -> None:
        """Replaces counters; those of adapters that are gone are left out."""
        with transaction(self._connection):
            self._connection.executemany(
                "INSERT OR REPLACE INTO usage (tenant, digest, counters) SELECT ?1, ?2, ?3 "
                "WHERE EXISTS (SELECT 1 FROM adapters WHERE tenant = ?1 AND digest = ?2)",
                [(*key, value) for key, value in counters.items()],
            )

    def _keep_content(
        self,
        content: AdapterContent,
        certificate: str,
        tenant_id: str | None,
        certified_for: str | None,
    ) -> None:
        known = self.content(content.digest)
        if (
            known is not None
            and known.is_on_flash
            and known.base_digest == content.base_digest
            # A probe may change the form: one tenant's must not change what another one has.
            and set(self.owners(content.digest)) - {tenant_id}
            and _release(self.certificate(content.digest)) == _release(certificate)
        ):
            return
        if known is not None and known.base_digest != content.base_digest:
            # Now others may use it too, or no longer.
            self._note_change(*self.owners(content.digest))
        # An upsert: adapters refer to the row.
        columns = [column.strip() for column in CONTENT_COLUMNS.split(",")]
        updates = ", ".join(f"{column} = excluded.{column}" for column in columns[1:])
        self._connection.execute(
            f"INSERT INTO contents ({CONTENT_COLUMNS}) VALUES ({places(CONTENT_COLUMNS)}) "  # noqa: S608
            f"ON CONFLICT (digest) DO UPDATE SET {updates}",
            content_row(content),
        )
        self._connection.execute(
            "INSERT INTO certificates (digest, document, tenant) VALUES (?, ?, ?) "
            "ON CONFLICT (digest) DO UPDATE SET document = excluded.document, "
            "tenant = coalesce(excluded.tenant, tenant)",
            (content.digest, certificate, certified_for),
        )

    def _note_change(self, *tenants: str) -> None:
        """Counts a change of candidates: the tenants' own, and what they grant to others."""
        granted = {grant.tenant_id for tenant in tenants for grant in self.grants_of(tenant)}
        self._connection.executemany(
            "INSERT INTO changes (tenant, number) VALUES (?, 1) "
            "ON CONFLICT (tenant) DO UPDATE SET number = number + 1",
            [(tenant,) for tenant in {*tenants, *granted}],
        )


def _release(certificate: str | None) -> str | None:
    """The release that issued a certificate; None before there were any."""
    return None if certificate is None else str(json.loads(certificate)["edgelora"])
