"""The registry: durable, indexed, changed only as a whole."""

import sqlite3
from contextlib import closing

import pytest

from edgelora.errors import AdapterNotFoundError, AlreadyExistsError, QuotaExceededError
from services.adapter_store.registry.manifest import (
    AdapterContent,
    AdapterManifest,
    Alias,
    Blob,
    ServingForm,
    Task,
)
from services.adapter_store.registry.page_position import PagePosition
from services.adapter_store.registry.registry import Registry
from services.adapter_store.registry.schema import MIGRATIONS
from services.adapter_store.registry.writer import (
    MAX_ALIASES,
    AdapterQuota,
    AliasWish,
    RegistryWriter,
)

CERTIFICATE = '{"edgelora": "1"}'


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def content(number: int = 1, **changes) -> AdapterContent:
    values = {
        "digest": digest(number),
        "base_digest": digest(0),
        "rank": 8,
        "alpha": 16.0,
        "target_modules": ("q_proj",),
        "num_parameters": 100,
        "weights_bytes": 400,
        "form": ServingForm.EXACT,
        "config": Blob(name="c" * 64, size_bytes=10),
        "weights": Blob(name=f"{number:064x}", size_bytes=400),
        "encoded": None,
        "certificate_digest": digest(number + 1000),
        "is_on_flash": True,
    }
    return AdapterContent(**(values | changes))


def encoded(number: int, blob: str, **changes) -> AdapterContent:
    return content(
        number,
        form=ServingForm.ENCODED_3,
        config=None,
        weights=None,
        encoded=Blob(name=blob * 64, size_bytes=80),
        **changes,
    )


def manifest(
    number: int = 1, tenant_id: str = "a", of: AdapterContent | None = None, **changes
) -> AdapterManifest:
    values = {
        "tenant_id": tenant_id,
        "content": of or content(number),
        "registered_at_s": float(number),
        "description": "",
        "package": None,
        "parent_digest": None,
        "is_pinned": False,
    }
    return AdapterManifest(**(values | changes))


def add(
    registry: RegistryWriter,
    *manifests: AdapterManifest,
    alias: str | None = None,
    expected: int | None = None,
    max_adapters: int = 10_000,
    certificate: str = CERTIFICATE,
):
    wish = None
    if alias is not None:
        wish = AliasWish(name=alias, may_replace=False, expected_generation=expected)
    for each in manifests:
        result = registry.add(
            each, certificate, alias=wish, quota=AdapterQuota(max_adapters=max_adapters)
        )
    return result


def listed(registry: RegistryWriter, tenant_id: str = "a") -> list[str]:
    return [each.digest for each in registry.adapters(tenant_id, 1000)]


@pytest.fixture
def registry(tmp_path):
    opened = RegistryWriter(tmp_path / "registry.sqlite3")
    yield opened
    opened.close()


def test_what_was_added_is_read_back_also_by_another_connection(registry, tmp_path):
    stored, alias, is_new = add(registry, manifest(), alias="x")
    assert (stored, is_new) == (manifest(), True)
    assert alias == Alias(name="x", digest=digest(1), generation=1)
    other = RegistryWriter(tmp_path / "registry.sqlite3")
    try:
        assert other.get("a", digest(1)) == manifest()
        assert other.find("a", "x") == (manifest(), alias)
        assert other.find("a", digest(1)) == (manifest(), None)
        assert other.certificate(digest(1)) == CERTIFICATE
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
    assert listed(registry) == [digest(1)]
    with pytest.raises(QuotaExceededError):
        add(registry, manifest(3), max_adapters=1)
    assert registry.num_adapters("a") == 1


def test_adapters_are_listed_newest_first_and_aliases_by_name(registry):
    add(registry, manifest(1), manifest(3), manifest(2))
    registry.set_alias("a", "z", digest(1), None)
    registry.set_alias("a", "b", digest(1), None)
    assert listed(registry) == [digest(3), digest(2), digest(1)]
    assert [each.name for each in registry.aliases_of("a", digest(1))] == ["b", "z"]
    assert registry.aliases_of("a", digest(2)) == []


def test_pages_hold_every_adapter_once_also_of_one_moment(registry):
    numbers = range(1, 24)
    add(registry, *(manifest(number, registered_at_s=float(number // 5)) for number in numbers))
    add(registry, manifest(99, "b"))
    found, after = [], None
    while page := registry.adapters("a", 4, after):
        found += [each.digest for each in page]
        after = PagePosition(page[-1].registered_at_s, page[-1].digest)
    assert found == listed(registry)
    assert sorted(found) == [digest(number) for number in numbers]


def test_adapter_that_was_sent_and_is_then_installed_can_be_had_again(registry):
    add(registry, manifest(1))
    assert registry.evictable() == []
    add(registry, manifest(1, package="usb/x@sha256:0"))
    assert registry.get("a", digest(1)).package == "usb/x@sha256:0"
    add(registry, manifest(1))
    assert [each.digest for each in registry.evictable()] == [digest(1)]


def test_own_content_follows_what_was_verified_last(registry):
    add(registry, manifest(of=encoded(1, "1")))
    stored, _, is_new = add(registry, manifest(of=encoded(1, "2")))
    assert (stored.content, is_new) == (encoded(1, "2"), False)
    add(registry, manifest(1, "b", of=encoded(1, "2")))
    stored, _, _ = add(registry, manifest(of=encoded(1, "3")), certificate='{"edgelora": "2"}')
    assert stored.content == encoded(1, "3")


def test_content_others_have_too_keeps_its_form(registry):
    add(registry, manifest(of=encoded(1, "1")))
    stored, _, is_new = add(registry, manifest(1, "b", of=encoded(1, "2")))
    assert (stored.content, is_new) == (encoded(1, "1"), True)
    assert registry.unused(["1" * 64, "2" * 64]) == ("2" * 64,)
    registry.evict(digest(1))
    stored, _, _ = add(registry, manifest(1, "b", of=encoded(1, "2")))
    assert stored.content == encoded(1, "2")
    assert registry.get("a", digest(1)).content == encoded(1, "2")


def test_registering_again_after_a_change_of_the_base_makes_it_usable(registry):
    add(registry, manifest(1))
    stored, _, is_new = add(registry, manifest(of=content(1, base_digest=digest(7))))
    assert (stored.content.base_digest, is_new) == (digest(7), False)


def test_certificate_is_of_the_files_that_were_verified_last(registry):
    add(registry, manifest(1), manifest(1, "b"))
    assert registry.is_certified_for("a", digest(1))
    assert not registry.is_certified_for("b", digest(1))
    registry.evict(digest(1))
    registry.restore(content(1), CERTIFICATE, certified_for=None)
    assert registry.is_certified_for("a", digest(1))
    registry.evict(digest(1))
    registry.restore(content(1), CERTIFICATE, certified_for="b")
    assert registry.is_certified_for("b", digest(1))
    assert not registry.is_certified_for("a", digest(2))


def test_evictable_is_what_every_owner_can_get_again_and_none_has_pinned(registry):
    package = {"package": "usb/x@sha256:0"}
    add(registry, manifest(1, **package), manifest(2), manifest(3, **package))
    add(registry, manifest(4, **package), manifest(4, "b"))
    registry.set_pinned("a", digest(3), is_pinned=True, max_pinned=1)
    assert [each.digest for each in registry.evictable()] == [digest(1)]
    assert registry.evict(digest(1)) == (f"{1:064x}",)
    assert registry.evict(digest(1)) == ()
    assert registry.evictable() == []
    assert registry.blobs() == {"c" * 64, *(f"{number:064x}" for number in (2, 3, 4))}
    registry.restore(content(1), CERTIFICATE, certified_for=None)
    assert [each.digest for each in registry.evictable()] == [digest(1)]
    registry.delete("a", digest(1))
    registry.restore(content(1), CERTIFICATE, certified_for=None)
    assert registry.registered([digest(1)]) == set()


def test_pins_are_counted_by_tenant(registry):
    add(registry, manifest(1), manifest(2), manifest(1, "b"))
    registry.set_pinned("a", digest(1), is_pinned=True, max_pinned=1)
    registry.set_pinned("a", digest(1), is_pinned=True, max_pinned=1)
    registry.set_pinned("b", digest(1), is_pinned=True, max_pinned=1)
    with pytest.raises(QuotaExceededError):
        registry.set_pinned("a", digest(2), is_pinned=True, max_pinned=1)
    assert registry.pinned() == [digest(1)]
    registry.set_pinned("a", digest(1), is_pinned=False, max_pinned=1)
    registry.set_pinned("a", digest(2), is_pinned=True, max_pinned=1)
    assert registry.pinned() == [digest(1), digest(2)]
    with pytest.raises(AdapterNotFoundError):
        registry.set_pinned("c", digest(1), is_pinned=True, max_pinned=1)


def test_aliases_of_an_adapter_are_bounded(registry):
    add(registry, manifest(1), manifest(2))
    for number in range(MAX_ALIASES):
        registry.set_alias("a", f"x{number}", digest(1), None)
    registry.set_alias("a", "x0", digest(1), None)
    with pytest.raises(QuotaExceededError):
        registry.set_alias("a", "y", digest(1), None)
    with pytest.raises(QuotaExceededError):
        add(registry, manifest(1), alias="y")
    assert registry.set_alias("a", "x0", digest(2), None).generation == 2
    registry.set_alias("a", "y", digest(1), None)


def test_registration_replaces_an_alias_only_at_its_generation(registry):
    add(registry, manifest(1), alias="x", expected=0)
    for expected in (0, 2):
        with pytest.raises(AlreadyExistsError):
            add(registry, manifest(2), alias="x", expected=expected)
    assert listed(registry) == [digest(1)]
    assert add(registry, manifest(2), alias="x", expected=1)[1].generation == 2


def test_counters_of_adapters_that_are_gone_are_not_written(registry):
    add(registry, manifest(1), manifest(2))
    registry.write_usage({("a", digest(1)): "1", ("a", digest(3)): "3", ("b", digest(1)): "b"})
    registry.write_usage({("a", digest(1)): "2", ("a", digest(2)): "2"})
    assert registry.usage() == {("a", digest(1)): "2", ("a", digest(2)): "2"}
    registry.delete("a", digest(1))
    assert registry.usage() == {("a", digest(2)): "2"}


def test_registry_of_the_first_release_is_carried_over(tmp_path):
    path = tmp_path / "old.sqlite3"
    old = sqlite3.connect(path)
    old.executescript(f"{MIGRATIONS[0]} PRAGMA user_version = 1;")
    for tenant in ("a", "b"):
        old.execute(
            "INSERT INTO adapters VALUES (?, ?, ?, 8, 16.0, ?, 100, ?, ?, 10, 400, 1, '')",
            (tenant, digest(1), digest(0), '["q_proj"]', "c" * 64, f"{1:064x}"),
        )
    old.execute("INSERT INTO aliases VALUES ('a', 'x', ?, 3)", (digest(1),))
    old.commit()
    old.close()
    registry = RegistryWriter(path)
    try:
        expected = manifest(of=content(1, certificate_digest=None))
        assert registry.find("a", "x") == (
            expected,
            Alias(name="x", digest=digest(1), generation=3),
        )
        assert registry.certificate(digest(1)) is None
        assert registry.delete("a", digest(1)).aliases == ("x",)
        assert registry.get("b", digest(1)) is not None
        registry.check()
    finally:
        registry.close()


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


def test_removed_alias_comes_back_with_a_generation_it_never_had(registry):
    for number in (1, 2):
        add(registry, manifest(number))
    registry.set_alias("a", "x", digest(1), None)
    assert registry.set_alias("a", "x", digest(2), None).generation == 2
    registry.delete("a", "x")
    assert registry.alias("a", "x") is None
    assert registry.set_alias("a", "x", digest(2), 0).generation == 3
    registry.delete("a", digest(2))
    assert registry.set_alias("a", "x", digest(1), 0).generation == 4
    add(registry, manifest(1, "b"))
    assert registry.set_alias("b", "x", digest(1), 0).generation == 1


def test_alias_that_moves_is_found_at_every_moment(registry, tmp_path):
    """Before every statement of a reader, what the alias pointed to is deleted."""
    add(registry, manifest(1))
    registry.set_alias("a", "x", digest(1), None)
    targets = iter(range(2, 9))

    def move(_statement: str) -> None:
        target = next(targets)
        add(registry, manifest(target))
        registry.set_alias("a", "x", digest(target), None)
        registry.delete("a", digest(target - 1))

    with closing(Registry(tmp_path / "registry.sqlite3")) as reader:
        reader._connection.set_trace_callback(move)
        found = reader.find("a", "x")
    assert found is not None
    assert found[0].digest == found[1].digest


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
    assert registry.alias("a", "x") is None
    assert registry.alias("a", "z") is not None
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
    registry.adapters("t1", 10)
    registry.adapters("t1", 10, PagePosition(5.0, digest(1)))
    registry.aliases_of("t1", digest(1))
    registry.owners(digest(1))
    registry.pinned()
    registry.certificate(digest(1))
    registry.set_pinned("t1", digest(1), is_pinned=True, max_pinned=3)
    registry.write_usage({("t1", digest(1)): ""})
    registry.evict(digest(1))
    registry.restore(content(1), CERTIFICATE, certified_for=None)
    registry.num_adapters("t1")
    registry.num_pinned("t1")
    registry.registered([digest(5)])
    registry.unused(["c" * 64])
    registry.example_prompts("t1", digest(1))
    registry.change_number("t1")
    registry.candidates("t1", digest(0), 10)
    original = manifest(5001, "t1", content(5001, rank=16))
    version = manifest(5002, "t1", version_of_digest=digest(5001))
    for each in (original, version):
        registry.add(
            each,
            CERTIFICATE,
            alias=None,
            example_prompts=["x"],
            quota=AdapterQuota(max_adapters=10_000, max_bytes=10**9),
        )
    registry.grant("t1", digest(5001), "t2", "granted", 7.0)
    registry.find("t2", "granted")
    registry.find("t2", digest(5001))
    registry.granted("t2", 10)
    registry.granted("t2", 10, PagePosition(5.0, digest(1)))
    registry.grants("t2")
    registry.grants_of("t1")
    registry.withdraw("t2", digest(5001))
    registry.versions("t1", digest(5001))
    add(registry, manifest(5000, "t1"), alias="x")
    registry.set_alias("t1", "x", digest(1), None)
    registry.delete("t1", digest(1))
    registry._connection.set_trace_callback(None)
    # SQLite traces the work of a foreign key as a comment of its own.
    queries = {each for each in statements if each.startswith(("SELECT", "DELETE", "INSERT"))}
    assert len(queries) > 10
    for query in queries:
        plan = registry._connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
        # The index of the pinned holds nothing else.
        scans = {step[3] for step in plan if step[3].startswith("SCAN")}
        allowed = {"SCAN adapters USING INDEX adapters_pinned", "SCAN CONSTANT ROW"}
        assert scans <= allowed, (query, plan)
        # All of a tenant's are walked only to count its adapters, and to list them up to a limit.
        walks = {step[3] for step in plan if step[3].endswith("(tenant=?)")}
        one_row = ("removed_generations", "changes")
        few = ("SEARCH grants",)  # as many as a tenant may be granted
        assert all(any(t in w for t in ("adapters_by_time", *one_row, *few)) for w in walks), plan


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "registry.sqlite3"
    registry = RegistryWriter(path)
    add(registry, *(manifest(number) for number in range(200)))
    registry.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(sqlite3.DatabaseError):
        RegistryWriter(path).check()


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


def test_head_of_a_classifier_takes_room_and_goes_with_the_last_that_has_it(registry):
    head = Blob(name="b" * 64, size_bytes=50)
    classifier = {"task": Task.ENCODE, "head": head, "num_labels": 2, "knows_out_of_scope": True}
    first, second = content(1, **classifier), content(2, **classifier)
    for of in (first, second):
        registry.add(
            manifest(of=of),
            CERTIFICATE,
            alias=None,
            labels=("pay", "move"),
            quota=AdapterQuota(max_adapters=9),
        )
    assert registry.content(first.digest) == first
    assert registry.labels(first.digest) == ("pay", "move")
    assert registry.stored_bytes("a") == first.flash_bytes + second.flash_bytes
    assert head.name in registry.blobs()
    assert head.name not in registry.delete("a", first.digest).unused_blobs
    assert registry.labels(first.digest) == ()
    assert head.name in registry.delete("a", second.digest).unused_blobs
    assert registry.candidates("a", None, 9) == []
