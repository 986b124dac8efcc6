"""Tenants in SQLite: keys hashed, revoking at once and for ever."""

from __future__ import annotations

import hashlib
import sqlite3

import pytest

from edgelora.errors import AlreadyExistsError, InvalidRequestError, NotFoundError
from services.gateway.roles import Role
from services.gateway.tenant import TenantQuotas
from services.gateway.tenant_registry import TenantRegistry
from tests.support.fake_clock import FakeClock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tenants.sqlite"


@pytest.fixture
def registry(path):
    registry = TenantRegistry(path, FakeClock(1000.0))
    yield registry
    registry.close()


def owner(registry, key):
    found = registry.find_by_key(key)
    return None if found is None else found[0]


def test_a_key_belongs_to_its_tenant_and_to_no_other(registry):
    quotas = TenantQuotas(max_concurrent_requests=3, max_tokens_per_minute=9)
    tenant, key = registry.create("acme", role=Role.USER, quotas=quotas)
    assert owner(registry, key) == tenant == registry.get("acme")
    assert (tenant.role, tenant.quotas) == (Role.USER, quotas)
    _, other = registry.create("other")
    assert owner(registry, other).tenant_id == "other"
    swapped = "el_other_" + key.rpartition("_")[2]
    assert registry.find_by_key(swapped) is None


@pytest.mark.parametrize("tenant_id", ["a_b", "_", "a_b_c-", "el_x", "-", "a" * 64])
def test_ids_with_separators_in_them_keep_their_keys_apart(registry, tenant_id):
    _, key = registry.create(tenant_id)
    assert owner(registry, key).tenant_id == tenant_id


def test_keys_have_256_random_bits_and_only_their_hash_is_kept(registry, path):
    keys = [registry.create(f"t{index}")[1] for index in range(50)]
    secrets = [key.rpartition("_")[2] for key in keys]
    assert len(set(secrets)) == 50
    assert {len(bytes.fromhex(secret)) for secret in secrets} == {32}
    database = sqlite3.connect(path)
    stored = [row[0] for row in database.execute("SELECT key_hash FROM keys")]
    database.close()
    assert sorted(stored) == sorted(hashlib.sha256(s.encode()).digest() for s in secrets)


@pytest.mark.parametrize(
    "key",
    ["", "el_", "el_acme_", "el_acme_" + "0" * 64, "el_nobody_" + "0" * 64, "acme", "\0", "é" * 70],
)
def test_other_keys_belong_to_nobody(registry, key):
    registry.create("acme")
    assert registry.find_by_key(key) is None


def test_every_look_up_takes_the_same_steps_whatever_is_wrong_T39(registry, monkeypatch):
    _, revoked = registry.create("revoked")
    registry.revoke("revoked")
    registry.create("acme")
    steps = []
    registry._database.set_trace_callback(lambda sql: steps.append(sql.partition("WHERE")[0]))

    def compare(expected, given) -> bool:
        steps.append((len(expected), len(given)))
        return expected == given

    monkeypatch.setattr("services.gateway.api_keys.hmac.compare_digest", compare)
    seen = []
    for key in (
        "",
        "junk",
        "el_acme_" + "0" * 64,
        "el_nobody_" + "0" * 64,
        "el_revoked_" + "1" * 64,
    ):
        steps.clear()
        assert registry.find_by_key(key) is None
        seen.append(list(steps))
    assert seen[1:] == seen[:-1]
    assert (32, 32) in seen[0]
    # Who shows a real secret learns nothing new by the one more comparison.
    assert registry.find_by_key(revoked) is None


def test_revoking_is_seen_by_every_handle_at_once(registry, path):
    _, key = registry.create("acme")
    other = TenantRegistry(path)
    assert other.find_by_key(key) is not None
    revoked = registry.revoke("acme")
    assert revoked.revoked_at_s == 1000.0
    assert other.find_by_key(key) is None
    assert not other.holds_key("acme", "1")
    other.close()
    assert registry.revoke("acme") == revoked


def test_a_revoked_id_is_never_given_again(registry):
    registry.create("acme")
    registry.revoke("acme")
    with pytest.raises(AlreadyExistsError):
        registry.create("acme")


def test_tenants_survive_and_are_listed_by_id(registry, path):
    _, key = registry.create("b")
    registry.create("a")
    registry.close()
    reopened = TenantRegistry(path)
    assert [tenant.tenant_id for tenant in reopened.list()] == ["a", "b"]
    assert owner(reopened, key).tenant_id == "b"
    reopened.close()


@pytest.mark.parametrize("tenant_id", ["", " ", "a b", "a/b", "..", "é", "a" * 65, "a\n", "a\0"])
def test_bad_ids_are_refused_by_name(registry, tenant_id):
    with pytest.raises(InvalidRequestError) as caught:
        registry.create(tenant_id)
    assert caught.value.field == "tenant_id"
    assert registry.list() == []


def test_unknown_tenants_are_not_found(registry):
    assert not registry.holds_key("nobody", "1")
    with pytest.raises(NotFoundError):
        registry.revoke("nobody")
