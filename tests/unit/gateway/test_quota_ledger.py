"""Balances outlive the gateway's process, and crashing never refills them."""

from __future__ import annotations

import sqlite3
from functools import partial

import pytest

from edgelora.errors import QuotaExceededError
from services.gateway.admission import Balance
from services.gateway.quota import Quota
from services.gateway.quota_ledger import QuotaLedger
from services.gateway.roles import Role
from services.gateway.tenant import Tenant, TenantQuotas
from tests.support.fake_clock import FakeClock

TENANT = Tenant(
    tenant_id="a",
    role=Role.AUTHOR,
    quotas=TenantQuotas(
        max_concurrent_requests=3, max_tokens_per_minute=600, max_requests_per_minute=4
    ),
    spiffe_id=None,
    created_at_s=0.0,
    revoked_at_s=None,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "quota.sqlite"


def test_a_crash_keeps_a_running_requests_reservation_as_spent_F01_T40(path):
    clock = FakeClock(100.0)
    ledger = QuotaLedger(path)
    quota = Quota(ledger, clock)
    quota.settle(quota.admit(TENANT, 200), 50)
    quota.admit(TENANT, 500)  # runs when the process dies
    ledger.close()

    clock.advance(3.0)
    ledger = QuotaLedger(path)
    quota = Quota(ledger, clock)
    assert quota.num_running("a") == 0
    quota.settle(quota.admit(TENANT, 80), 80)  # 50 left, and 30 for 3 seconds
    with pytest.raises(QuotaExceededError):
        quota.admit(TENANT, 1)
    ledger.close()


def test_a_crash_gives_no_request_back_F01_T40(path):
    clock = FakeClock(100.0)
    for _ in range(4):
        ledger = QuotaLedger(path)
        Quota(ledger, clock).admit(TENANT, 1)
        ledger.close()
    ledger = QuotaLedger(path)
    with pytest.raises(QuotaExceededError) as refused:
        Quota(ledger, clock).admit(TENANT, 1)
    assert refused.value.field == "max_requests_per_minute"
    ledger.close()


def test_a_file_of_the_first_version_keeps_its_balances(path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(
        "CREATE TABLE balances (tenant_id TEXT PRIMARY KEY, tokens REAL NOT NULL, "
        "at_boot_s REAL NOT NULL, boot_id TEXT NOT NULL) STRICT"
    )
    database.execute("INSERT INTO balances VALUES ('a', 7.0, 90.0, 'now')")
    database.close()
    clock = FakeClock(90.0)
    ledger = QuotaLedger(path, this_boot="now")
    quota = Quota(ledger, clock)
    with pytest.raises(QuotaExceededError):
        quota.admit(TENANT, 8)
    quota.admit(TENANT, 7)
    assert ledger.load(90.0)["a"] == Balance(tokens=0.0, requests=3.0, at_s=90.0)
    ledger.close()


def test_a_reboot_gives_nothing_for_the_time_it_took(path):
    ledger = QuotaLedger(path, this_boot="first")
    ledger.save("a", Balance(tokens=7.0, requests=2.0, at_s=5000.0))
    ledger.close()
    ledger = QuotaLedger(path, this_boot="second")
    assert ledger.load(now_boot_s=20.0) == {"a": Balance(tokens=7.0, requests=2.0, at_s=20.0)}
    ledger.close()


def test_a_damaged_file_is_set_aside_F30(path):
    path.write_bytes(b"no database at all" * 100)
    ledger = QuotaLedger(path)
    assert ledger.load(0.0) == {}
    ledger.save("a", Balance(tokens=1.0, requests=1.0, at_s=0.0))
    assert path.with_suffix(".damaged").exists()
    ledger.close()


def test_a_file_another_gateway_locks_is_left_alone(path, monkeypatch):
    first = sqlite3.connect(path, isolation_level=None)
    first.execute("PRAGMA journal_mode = WAL")
    first.execute("PRAGMA locking_mode = EXCLUSIVE")
    first.execute("CREATE TABLE t (x)")
    # It waits five seconds for the lock by default.
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0.1))
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        QuotaLedger(path)
    assert not path.with_suffix(".damaged").exists()
    first.close()


def test_storage_that_takes_nothing_neither_leaks_a_place_nor_keeps_one(path):
    ledger = QuotaLedger(path)
    quota = Quota(ledger, FakeClock(100.0))
    ledger.close()  # every write fails from now on
    reservation = quota.admit(TENANT, 500)
    assert quota.num_running("a") == 1
    with pytest.raises(QuotaExceededError):
        quota.admit(TENANT, 200)
    quota.settle(reservation, 50)
    assert quota.num_running("a") == 0
    quota.settle(quota.admit(TENANT, 200), 200)
