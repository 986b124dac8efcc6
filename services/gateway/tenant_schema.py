"""The tables of tenants.sqlite, and how a file of the first version becomes one of this.

Version 1 had one key a tenant, in the tenant's row, and no number. Its keys stay valid.
"""

from __future__ import annotations

import sqlite3

from services.gateway.roles import Role
from services.gateway.tenant import TenantQuotas

_VERSION = 2
_TENANTS = """
CREATE TABLE tenants (
    tenant_id TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    max_concurrent_requests INTEGER NOT NULL,
    max_tokens_per_minute INTEGER NOT NULL,
    max_requests_per_minute INTEGER NOT NULL,
    max_adapters INTEGER NOT NULL,
    max_adapter_bytes INTEGER NOT NULL,
    spiffe_id TEXT UNIQUE,
    created_at_s REAL NOT NULL,
    revoked_at_s REAL
) STRICT
"""
_KEYS = """
CREATE TABLE keys (
    tenant_id TEXT NOT NULL REFERENCES tenants,
    number INTEGER NOT NULL,
    key_hash BLOB NOT NULL UNIQUE,
    created_at_s REAL NOT NULL,
    revoked_at_s REAL,
    end_given_at_s REAL,
    expires_at_s REAL,
    expires_at_boot_s REAL,
    boot_id TEXT,
    PRIMARY KEY (tenant_id, number)
) STRICT
"""


def migrate(database: sqlite3.Connection) -> None:
    """Makes the tables, or brings those of the first version up to date, all or nothing.

    Raises OSError when a newer release wrote the file.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise OSError("tenants.sqlite was written by a newer release: start that one")
        if version < _VERSION:
            _upgrade(database)
            database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _upgrade(database: sqlite3.Connection) -> None:
    is_old = database.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tenants'"
    ).fetchone()[0]
    if is_old:
        database.execute("ALTER TABLE tenants RENAME TO first_tenants")
    database.execute(_TENANTS)
    database.execute(_KEYS)
    if not is_old:
        return
    defaults = TenantQuotas()
    database.execute(
        "INSERT INTO tenants SELECT tenant_id, ?, max_concurrent_requests, max_tokens_per_minute, "
        "?, ?, ?, NULL, created_at_s, revoked_at_s FROM first_tenants",
        (
            Role.AUTHOR.name.lower(),
            defaults.max_requests_per_minute,
            defaults.max_adapters,
            defaults.max_adapter_bytes,
        ),
    )
    database.execute(
        "INSERT INTO keys (tenant_id, number, key_hash, created_at_s, revoked_at_s) "
        "SELECT tenant_id, 1, key_hash, created_at_s, revoked_at_s FROM first_tenants"
    )
    database.execute("DROP TABLE first_tenants")
