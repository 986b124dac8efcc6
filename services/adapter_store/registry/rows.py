"""Between manifests and rows of the registry's tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.adapter_store.registry.manifest import (
    AdapterContent,
    AdapterManifest,
    Blob,
    Candidate,
    ServingForm,
    Task,
)

CONTENT_COLUMNS = (
    "digest, base_digest, rank, alpha, target_modules, num_parameters, weights_bytes, form, "
    "config_blob, config_blob_bytes, weights_blob, weights_blob_bytes, encoded_blob, "
    "encoded_blob_bytes, certificate_digest, is_on_flash, task, head_blob, head_blob_bytes, "
    "num_labels, knows_out_of_scope"
)
FLASH_BYTES = (
    "coalesce(config_blob_bytes, 0) + coalesce(weights_blob_bytes, 0) + "
    "coalesce(encoded_blob_bytes, 0) + coalesce(head_blob_bytes, 0)"
)
"""What a content's form takes."""
_OWN_COLUMNS = "tenant, registered_at, description, package, parent_digest, is_pinned"
_NUM_OWN_COLUMNS = 7
ADAPTER_COLUMNS = f"digest, {_OWN_COLUMNS}"
SELECT_MANIFEST = (
    f"SELECT {_OWN_COLUMNS}, version_of, {CONTENT_COLUMNS} "  # noqa: S608
    "FROM adapters JOIN contents USING (digest) LEFT JOIN versions USING (tenant, digest)"
)
"""Rows for `manifest_of`."""
EVICTABLE_COLUMNS = f"digest, {FLASH_BYTES}, json_group_array(tenant), max(registered_at)"
"""Of adapters and contents, grouped by digest; rows for `evictable_of`."""
CANDIDATES = """
SELECT digest, description, example_prompts, lowest_rank, alias FROM (SELECT * FROM (
SELECT adapters.digest, description, example_prompts,
    min(rank, coalesce(
        (SELECT min(cut.rank) FROM versions AS links JOIN contents AS cut USING (digest)
         WHERE links.tenant = adapters.tenant AND links.version_of = adapters.digest
         AND cut.base_digest = :base), rank)) AS lowest_rank,
    (SELECT min(name) FROM aliases INDEXED BY aliases_by_digest
     WHERE aliases.tenant = adapters.tenant AND aliases.digest = adapters.digest
     AND name <> :auto) AS alias, registered_at AS since
FROM adapters JOIN contents USING (digest)
LEFT JOIN versions USING (tenant, digest) LEFT JOIN cards USING (tenant, digest)
WHERE tenant = :tenant AND base_digest = :base AND version_of IS NULL
    AND (alias IS NOT NULL OR example_prompts IS NOT NULL)
ORDER BY registered_at DESC, digest LIMIT :limit)
UNION ALL
SELECT grants.digest, description, example_prompts, rank, grants.alias, granted_at
FROM grants JOIN contents USING (digest)
JOIN adapters ON adapters.tenant = grants.owner AND adapters.digest = grants.digest
LEFT JOIN cards ON cards.tenant = grants.owner AND cards.digest = grants.digest
WHERE grants.tenant = :tenant AND base_digest = :base
    AND (grants.alias IS NOT NULL OR example_prompts IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM adapters AS own
        WHERE own.tenant = grants.tenant AND own.digest = grants.digest)
) ORDER BY since DESC, digest LIMIT :limit
"""
"""Rows for `candidate_of`."""
IS_EVICTABLE = "count(package) = count(*) AND max(is_pinned) = 0"
"""What a group has to fulfil."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictableContent:
    """A content that may leave flash."""

    digest: str
    flash_bytes: int
    owners: tuple[str, ...]
    """Tenants."""
    registered_at_s: float
    """Unix time of the last registration."""


def evictable_of(row: Sequence[Any]) -> EvictableContent:
    """A row of EVICTABLE_COLUMNS as a content."""
    return EvictableContent(
        digest=row[0],
        flash_bytes=row[1],
        owners=tuple(json.loads(row[2])),
        registered_at_s=row[3],
    )


def content_row(content: AdapterContent) -> tuple[Any, ...]:
    """A content in the order of CONTENT_COLUMNS."""
    blobs = (content.config, content.weights, content.encoded)
    return (
        content.digest,
        content.base_digest,
        content.rank,
        content.alpha,
        json.dumps(content.target_modules),
        content.num_parameters,
        content.weights_bytes,
        content.form.value,
        *(value for blob in blobs for value in _blob_row(blob)),
        content.certificate_digest,
        content.is_on_flash,
        content.task.value,
        *_blob_row(content.head),
        content.num_labels,
        content.knows_out_of_scope,
    )


def content_of(row: Sequence[Any]) -> AdapterContent:
    """A row of CONTENT_COLUMNS as a content."""
    return AdapterContent(
        digest=row[0],
        base_digest=row[1],
        rank=row[2],
        alpha=row[3],
        target_modules=tuple(json.loads(row[4])),
        num_parameters=row[5],
        weights_bytes=row[6],
        form=ServingForm(row[7]),
        config=_blob(row[8], row[9]),
        weights=_blob(row[10], row[11]),
        encoded=_blob(row[12], row[13]),
        certificate_digest=row[14],
        is_on_flash=bool(row[15]),
        task=Task(row[16]),
        head=_blob(row[17], row[18]),
        num_labels=row[19],
        knows_out_of_scope=bool(row[20]),
    )


def adapter_row(manifest: AdapterManifest) -> tuple[Any, ...]:
    """A manifest in the order of ADAPTER_COLUMNS."""
    return (
        manifest.digest,
        manifest.tenant_id,
        manifest.registered_at_s,
        manifest.description,
        manifest.package,
        manifest.parent_digest,
        manifest.is_pinned,
    )


def manifest_of(row: Sequence[Any]) -> AdapterManifest:
    """A row of SELECT_MANIFEST as a manifest."""
    return AdapterManifest(
        tenant_id=row[0],
        registered_at_s=row[1],
        description=row[2],
        package=row[3],
        parent_digest=row[4],
        is_pinned=bool(row[5]),
        version_of_digest=row[6],
        content=content_of(row[_NUM_OWN_COLUMNS:]),
    )


def candidate_of(row: Sequence[Any]) -> Candidate:
    """A row of CANDIDATES as a candidate."""
    return Candidate(
        digest=row[0],
        description=row[1],
        example_prompts=() if row[2] is None else tuple(json.loads(row[2])),
        lowest_rank=row[3],
        alias=row[4],
    )


def places(columns: str) -> str:
    """One question mark for each column."""
    return ", ".join("?" for _ in columns.split(","))


def _blob_row(blob: Blob | None) -> tuple[str | None, int | None]:
    return (None, None) if blob is None else (blob.name, blob.size_bytes)


def _blob(name: str | None, size_bytes: int | None) -> Blob | None:
    if name is None or size_bytes is None:
        return None
    return Blob(name=name, size_bytes=size_bytes)
