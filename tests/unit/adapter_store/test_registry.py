"""The registry: durable, indexed, changed only as a whole."""

import sqlite3

import pytest

from edgelora.errors import AdapterNotFoundError, AlreadyExistsError, QuotaExceededError
from services.adapter_store.manifest import AdapterManifest, Alias
from services.adapter_store.registry import Registry


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def manifest(number: int = 1, tenant_id: str = "a", **changes) -> AdapterManifest:
    values = {
        "tenant_id": tenant_id,
        "digest": digest(number),
        "base_digest": digest(0),
        "rank": 8,
        "alpha": 16.0,
        "target_modules": ("q_proj",),
        "num_parameters": 100,
        "config_blob": "c" * 64,
        "weights_blob": f"{number:064x}",
        "config_bytes": 10,
        "weights_bytes": 400,
        "registered_at_s": float(number),
        "description": "",
    }
    return AdapterManifest(**(values | changes))


def add(registry: Registry, *manifests: AdapterManifest, alias: str | None = None, **options):
    for each in manifests:
        result = registry.add(
            each, **({"alias": alias, "replace_alias": False, "max_adapters": 10_000} | options)
        )
    return result


@pytest.fixture
def registry(tmp_path):
    opened = Registry(tmp_path / "registry.sqlite3")
    yield opened
    opened.close()


def test_what_was_added_is_read_back_also_by_another_connection(registry, tmp_path):
    stored, alias, is_new = add(registry, manifest(), alias="x")
    assert (stored, is_new) == (manifest(), True)
    assert alias == Alias(name="x", digest=digest(1), generation=1)
    other = Registry(tmp_path / "registry.sqlite3")
    try:
        assert other.get("a", digest(1)) == manifest()
        assert other.find("a", "x") == manifest()
        assert other.find("a", digest(1)) == manifest()
        assert other.find("b", "x") is None
        assert other.find("b", digest(1)) is None
    finally:
        other.close()


def test_first_registration_wins(registry):
    add(registry, manifest(description="first"))
    stored, _, is_new = add(registry, manifest(description="second"))
    assert (stored.description, is_new) == ("first", False)


def test_failed_addition_changes_nothing(registry):
    add(registry, manifest(1), alias="x")
    with pytest.raises(AlreadyExistsError):
        add(registry, manifest(2), alias="x")
    assert [each.digest for each in registry.adapters("a")] == [digest(1)]
    with pytest.raises(QuotaExceededError):
        add(registry, manifest(3), max_adapters=1)
    assert registry.num_adapters("a") == 1


def test_adapters_are_listed_newest_first_and_aliases_by_name(registry):
    add(registry, manifest(1), manifest(3), manifest(2))
    registry.set_alias("a", "z", digest(1), None)
    registry.set_alias("a", "b", digest(3), None)
    assert [each.digest for each in registry.adapters("a")] == [digest(3), digest(2), digest(1)]
    assert [each.name for each in registry.aliases("a")] == ["b", "z"]


def test_generation_grows_with_each_replacement_only(registry):
    add(registry, manifest(1), manifest(2))
    assert registry.set_alias("a", "x", digest(1), None).generation == 1
    assert registry.set_alias("a", "x", digest(1), 1).generation == 1
    assert registry.set_alias("a", "x", digest(2), 1).generation == 2
    for expected in (0, 1, 3):
        with pytest.raises(AlreadyExistsError):
            registry.set_alias("a", "x", digest(1), expected)
    with pytest.raises(AdapterNotFoundError):
        registry.set_alias("b", "x", digest(1), None)


def test_blobs_are_unused_only_when_no_tenant_has_them(registry):
    add(registry, manifest(1), manifest(1, "b"), manifest(2))
    assert registry.delete("a", digest(1)).unused_blobs == ()
    assert registry.delete("b", digest(1)).unused_blobs == (f"{1:064x}",)
    assert set(registry.delete("a", digest(2)).unused_blobs) == {"c" * 64, f"{2:064x}"}
    assert registry.blobs() == set()


def test_deleting_an_adapter_takes_its_aliases_along(registry):
    add(registry, manifest(1), manifest(2))
    for name, number in (("x", 1), ("y", 1), ("z", 2)):
        registry.set_alias("a", name, digest(number), None)
    assert registry.delete("a", digest(1)).aliases == ("x", "y")
    assert [each.name for each in registry.aliases("a")] == ["z"]
    assert registry.registered([digest(1), digest(2)]) == {digest(2)}
    for reference in ("x", "nothing", digest(1)):
        with pytest.raises(AdapterNotFoundError):
            registry.delete("a", reference)


def test_every_statement_is_answered_by_an_index(registry):
    add(registry, *(manifest(number, f"t{number % 7}") for number in range(1000)))
    statements: set[str] = set()
    registry._connection.set_trace_callback(statements.add)
    registry.find("t1", digest(1))
    registry.find("t1", "x")
    registry.adapters("t1")
    registry.aliases("t1")
    registry.num_adapters("t1")
    registry.registered([digest(5)])
    registry.unused(["c" * 64])
    add(registry, manifest(5000, "t1"), alias="x")
    registry.set_alias("t1", "x", digest(1), None)
    registry.delete("t1", digest(1))
    registry._connection.set_trace_callback(None)
    # SQLite traces the work of a foreign key as a comment of its own.
    queries = {each for each in statements if each.startswith(("SELECT", "DELETE", "INSERT"))}
    assert len(queries) > 10
    for query in queries:
        plan = registry._connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
        assert not any(step[3].startswith("SCAN") for step in plan), (query, plan)


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "registry.sqlite3"
    registry = Registry(path)
    add(registry, *(manifest(number) for number in range(200)))
    registry.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(sqlite3.DatabaseError):
        Registry(path).check()


def test_failed_commit_leaves_the_registry_usable(registry, tmp_path):
    add(registry, manifest(1))
    blocker = sqlite3.connect(tmp_path / "registry.sqlite3", isolation_level=None)
    registry._connection.execute("PRAGMA busy_timeout = 0")
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError):
        add(registry, manifest(2))
    blocker.execute("ROLLBACK")
    blocker.close()
    add(registry, manifest(3))
    assert registry.num_adapters("a") == 2
