"""A tenants.sqlite of the first version becomes one of this in place, and its keys stay valid."""

from __future__ import annotations

import hashlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from services.gateway.roles import Role
from services.gateway.tenant import TenantQuotas
from services.gateway.tenant_registry import TenantRegistry

FIRST_SCHEMA = """
CREATE TABLE IF NOT EXISTS tenants (
    tenant_id TEXT PRIMARY KEY,
    key_hash BLOB NOT NULL,
    max_concurrent_requests INTEGER NOT NULL,
    max_tokens_per_minute INTEGER NOT NULL,
    created_at_s REAL NOT NULL,
    revoked_at_s REAL
) STRICT
"""


@pytest.fixture
def path(tmp_path):
    """A file as the first version left it, with one tenant that was revoked."""
    path = tmp_path / "tenants.sqlite"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(FIRST_SCHEMA)
    for tenant_id, digit, revoked_at_s in (("kept", "1", None), ("gone", "2", 20.0)):
        database.execute(
            "INSERT INTO tenants VALUES (?, ?, 3, 900, 10.0, ?)",
            (tenant_id, hashlib.sha256(digit.encode() * 64).digest(), revoked_at_s),
        )
    database.close()
    return path


def test_tenants_quotas_and_keys_stay_as_they_were(path):
    for _ in range(2):  # the second opening finds nothing to do
        registry = TenantRegistry(path)
        tenant, key = registry.find_by_key("el_kept_" + "1" * 64)
        assert (tenant.tenant_id, tenant.role, tenant.created_at_s) == ("kept", Role.AUTHOR, 10.0)
        assert tenant.quotas == TenantQuotas(max_concurrent_requests=3, max_tokens_per_minute=900)
        assert (key.key_id, key.created_at_s, key.expires_at_s) == ("1", 10.0, None)
        assert registry.find_by_key("el_gone_" + "2" * 64) is None
        assert registry.get("gone").revoked_at_s == 20.0
        registry.close()


def test_many_that_open_it_at_once_agree(path):
    def open_and_look(_):
        registry = TenantRegistry(path)
        try:
            return registry.find_by_key("el_kept_" + "1" * 64) is not None
        finally:
            registry.close()

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(open_and_look, range(8)))


def test_a_failed_migration_leaves_the_old_file_whole(path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("CREATE TABLE keys (x)")  # in the way of the new table
    database.close()
    with pytest.raises(sqlite3.OperationalError):
        TenantRegistry(path)
    database = sqlite3.connect(path)
    assert database.execute("SELECT count(key_hash) FROM tenants").fetchone() == (2,)
    assert database.execute("PRAGMA user_version").fetchone() == (0,)
    database.close()


def test_a_file_of_a_newer_release_is_left_alone(path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(OSError, match="newer release"):
        TenantRegistry(path)
