"""Tenants and their hashed API keys, in SQLite. Every look-up reads the file: revoking is at once.

A key is `el_<tenant>_<secret>`. The secret is 256 random bits as hex, so a plain SHA-256 of it is
enough: there is nothing to guess that a slow hash would protect.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgelora.errors import AlreadyExistsError, InvalidRequestError, NotFoundError

FILE_NAME = "tenants.sqlite"
DEFAULT_MAX_CONCURRENT_REQUESTS = 8
DEFAULT_MAX_TOKENS_PER_MINUTE = 60_000
MAX_CONCURRENT_REQUESTS = 1024
MAX_TOKENS_PER_MINUTE = 1_000_000_000
_KEY_PREFIX = "el_"
_SECRET_BYTES = 32
_TENANT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY = re.compile(r"el_([A-Za-z0-9_-]{1,64})_([0-9a-f]{64})")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tenants (
    tenant_id TEXT PRIMARY KEY,
    key_hash BLOB NOT NULL,
    max_concurrent_requests INTEGER NOT NULL,
    max_tokens_per_minute INTEGER NOT NULL,
    created_at_s REAL NOT NULL,
    revoked_at_s REAL
) STRICT
"""
_COLUMNS = "tenant_id, max_concurrent_requests, max_tokens_per_minute, created_at_s, revoked_at_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One party that shares the node."""

    tenant_id: str
    max_concurrent_requests: int
    max_tokens_per_minute: int
    created_at_s: float
    """Unix time."""
    revoked_at_s: float | None
    """Unix time, None while the key is valid."""


class TenantRegistry:
    """The tenants of a node. Several handles and processes may share one file."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA busy_timeout = 5000")
        self._database.execute(_SCHEMA)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def create(
        self,
        tenant_id: str,
        *,
        max_concurrent_requests: int = DEFAULT_MAX_CONCURRENT_REQUESTS,
        max_tokens_per_minute: int = DEFAULT_MAX_TOKENS_PER_MINUTE,
    ) -> tuple[Tenant, str]:
        """Adds a tenant; returns it and the only copy of its key.

        Raises InvalidRequestError for a bad id or limit, AlreadyExistsError when the id was ever
        used: a revoked tenant's adapters must not fall to another party.
        """
        if not _TENANT_ID.fullmatch(tenant_id):
            raise InvalidRequestError(
                'tenant_id must be 1 to 64 letters, digits, "_" or "-"', field="tenant_id"
            )
        _check_limit("max_concurrent_requests", max_concurrent_requests, MAX_CONCURRENT_REQUESTS)
        _check_limit("max_tokens_per_minute", max_tokens_per_minute, MAX_TOKENS_PER_MINUTE)
        secret = secrets.token_hex(_SECRET_BYTES)
        tenant = Tenant(
            tenant_id=tenant_id,
            max_concurrent_requests=max_concurrent_requests,
            max_tokens_per_minute=max_tokens_per_minute,
            created_at_s=self._wall_clock(),
            revoked_at_s=None,
        )
        try:
            self._database.execute(
                "INSERT INTO tenants VALUES (?, ?, ?, ?, ?, NULL)",
                (
                    tenant_id,
                    _hash(secret),
                    max_concurrent_requests,
                    max_tokens_per_minute,
                    tenant.created_at_s,
                ),
            )
        except sqlite3.IntegrityError:
            raise AlreadyExistsError(
                "this tenant_id is taken or was revoked: choose another", field="tenant_id"
            ) from None
        return tenant, f"{_KEY_PREFIX}{tenant_id}_{secret}"

    def list(self) -> list[Tenant]:
        """All tenants, by id."""
        rows = self._database.execute(f"SELECT {_COLUMNS} FROM tenants ORDER BY tenant_id")  # noqa: S608 - a constant
        return [_tenant(row) for row in rows]

    def revoke(self, tenant_id: str) -> Tenant:
        """Voids a tenant's key for ever. Raises NotFoundError. Again changes nothing."""
        self._database.execute(
            "UPDATE tenants SET revoked_at_s = ? WHERE tenant_id = ? AND revoked_at_s IS NULL",
            (self._wall_clock(), tenant_id),
        )
        row = self._row(tenant_id)
        if row is None:
            raise NotFoundError("there is no such tenant: list the tenants", field="tenant_id")
        return _tenant(row[1:])

    def find_by_key(self, api_key: str) -> Tenant | None:
        """The tenant a key belongs to, or None when it is malformed, unknown, wrong or revoked.

        All four take the same steps, so that neither answer nor time tells them apart.
        """
        match = _KEY.fullmatch(api_key)
        tenant_id, secret = match.groups() if match else ("", "")
        row = self._row(tenant_id)
        expected: bytes = _NO_HASH if row is None else row[0]
        is_right = hmac.compare_digest(expected, _hash(secret))
        if row is None or not is_right:
            return None
        tenant = _tenant(row[1:])
        return tenant if tenant.revoked_at_s is None else None

    def is_active(self, tenant_id: str) -> bool:
        """Whether the tenant exists and is not revoked."""
        row = self._row(tenant_id)
        return row is not None and _tenant(row[1:]).revoked_at_s is None

    def _row(self, tenant_id: str) -> tuple[bytes, str, int, int, float, float | None] | None:
        row: tuple[bytes, str, int, int, float, float | None] | None = self._database.execute(
            f"SELECT key_hash, {_COLUMNS} FROM tenants WHERE tenant_id = ?",  # noqa: S608 - a constant
            (tenant_id,),
        ).fetchone()
        return row


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


# What an unknown tenant's secret is compared with: random, so that no secret has this hash.
_NO_HASH = secrets.token_bytes(hashlib.sha256().digest_size)


def _tenant(row: tuple[str, int, int, float, float | None]) -> Tenant:
    tenant_id, max_concurrent_requests, max_tokens_per_minute, created_at_s, revoked_at_s = row
    return Tenant(
        tenant_id=tenant_id,
        max_concurrent_requests=max_concurrent_requests,
        max_tokens_per_minute=max_tokens_per_minute,
        created_at_s=created_at_s,
        revoked_at_s=revoked_at_s,
    )


def _check_limit(field: str, value: int, highest: int) -> None:
    if not 1 <= value <= highest:
        raise InvalidRequestError(f"{field} must be 1 to {highest}", field=field)
