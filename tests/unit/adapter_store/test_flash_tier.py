"""Who leaves flash when it is full: the least recently used, of those that may, and no more."""

import hashlib
import time

import pytest

from edgelora.errors import ResourcePressureError
from services.adapter_store.flash.storage import open_storage
from services.adapter_store.flash.tier import FlashTier
from services.adapter_store.registry.manifest import (
    AdapterContent,
    AdapterManifest,
    Blob,
    ServingForm,
)
from services.adapter_store.registry.writer import AdapterQuota, RegistryWriter
from services.adapter_store.usage import Tier, UsageLedger

BLOB_BYTES = 100
NOW_S = 10_000.0


def digest(number):
    return f"sha256:{number:064x}"


class Shelf:
    """A flash tier over a directory, with adapters of one size."""

    def __init__(self, storage, num_adapters):
        self.storage = storage
        self.ledger = UsageLedger({})
        self.in_use = set()
        self.idle = set()
        self.now_s = NOW_S
        self.tier = FlashTier(
            storage.blobs,
            storage.writer,
            self.ledger,
            budget_bytes=num_adapters * BLOB_BYTES,
            min_residency_s=60.0,
            held=lambda: self.in_use | self.idle,
            busy=lambda: self.in_use,
            unix_clock_s=lambda: self.now_s,
        )

    def blob(self, number):
        data = number.to_bytes(4) * (BLOB_BYTES // 4)
        path = self.storage.blobs.directory.parent / "arrival"
        path.write_bytes(data)
        return path, Blob(name=hashlib.sha256(data).hexdigest(), size_bytes=BLOB_BYTES)

    def arrive(self, number, *, package="usb/x@sha256:0", at_s=0.0):
        path, blob = self.blob(number)
        self.tier.adopt([(path, blob)])
        content = AdapterContent(
            digest=digest(number),
            base_digest=digest(0),
            rank=1,
            alpha=1.0,
            target_modules=("q_proj",),
            num_parameters=1,
            weights_bytes=BLOB_BYTES,
            form=ServingForm.ENCODED_3,
            config=None,
            weights=None,
            encoded=blob,
            certificate_digest=None,
            is_on_flash=True,
        )
        manifest = AdapterManifest(
            tenant_id="a",
            content=content,
            registered_at_s=at_s,
            description="",
            package=package,
            parent_digest=None,
            is_pinned=False,
        )
        self.storage.writer.add(manifest, "{}", alias=None, quota=AdapterQuota(max_adapters=1000))

    def use(self, number, at_s):
        self.ledger.note_hit("a", digest(number), Tier.FLASH, at_s)

    def on_flash(self):
        known = self.storage.reader.adapters("a", 1000)
        on_flash = {each.digest for each in known if each.content.is_on_flash}
        return [number for number in range(1, 100) if digest(number) in on_flash]


@pytest.fixture
def storage(tmp_path):
    with open_storage(tmp_path) as opened:
        yield opened


def test_the_least_recently_used_goes_whatever_was_used_since_the_last_eviction(storage):
    shelf = Shelf(storage, 4)
    for number in (1, 2, 3, 4):
        shelf.arrive(number, at_s=float(number))
    shelf.arrive(5, at_s=5.0)
    assert shelf.on_flash() == [2, 3, 4, 5]
    shelf.use(2, 100.0)
    shelf.arrive(6, at_s=6.0)
    assert shelf.on_flash() == [2, 4, 5, 6]
    shelf.arrive(7, at_s=7.0)
    shelf.arrive(8, at_s=8.0)
    assert shelf.on_flash() == [2, 6, 7, 8]
    assert shelf.tier.num_evictions == 4
    assert shelf.tier.used_bytes == 4 * BLOB_BYTES


def test_what_came_a_moment_ago_stays_though_nobody_used_it_yet(storage):
    shelf = Shelf(storage, 2)
    shelf.arrive(1, at_s=1.0)
    shelf.arrive(2, at_s=NOW_S - 1.0)
    shelf.use(1, 5.0)
    shelf.arrive(3, at_s=NOW_S)
    assert shelf.on_flash() == [2, 3]
    with pytest.raises(ResourcePressureError):
        shelf.arrive(4)
    # What was used least recently goes in the end, rather than keeping others out for good.
    shelf.now_s += 5.0
    shelf.arrive(4, at_s=shelf.now_s)
    assert shelf.on_flash() == [3, 4]


def test_what_was_offered_goes_first_and_only_for_something_that_came(storage):
    shelf = Shelf(storage, 3)
    for number in (1, 2, 3):
        shelf.arrive(number, at_s=float(number))
    shelf.tier.offer([digest(3), digest(2), digest(99)])
    assert shelf.on_flash() == [1, 2, 3]
    shelf.in_use.add(digest(3))
    shelf.arrive(4, at_s=4.0)
    assert shelf.on_flash() == [1, 3, 4]


def test_clock_that_was_set_back_for_years_does_not_keep_flash_full_F17(storage):
    shelf = Shelf(storage, 2)
    shelf.arrive(1, at_s=NOW_S)
    shelf.arrive(2, at_s=NOW_S)
    shelf.use(2, NOW_S + 1.0)
    shelf.now_s = NOW_S - 1.0
    with pytest.raises(ResourcePressureError):
        shelf.arrive(3)
    shelf.now_s = 1.0
    shelf.arrive(3, at_s=1.0)
    assert shelf.on_flash() == [2, 3]


def test_what_is_on_flash_is_repaired_though_the_budget_was_made_smaller(storage):
    shelf = Shelf(storage, 2)
    shelf.arrive(1, package=None)
    shelf.arrive(2, package=None)
    shelf.tier.budget_bytes = BLOB_BYTES
    shelf.arrive(1, package=None)
    with pytest.raises(ResourcePressureError):
        shelf.arrive(3)


def test_what_is_in_use_pinned_or_the_only_copy_stays_until_that_ends(storage):
    shelf = Shelf(storage, 3)
    shelf.arrive(1, package=None)
    shelf.arrive(2)
    shelf.arrive(3)
    shelf.in_use.add(digest(2))
    storage.writer.set_pinned("a", digest(3), is_pinned=True, max_pinned=1)
    with pytest.raises(ResourcePressureError):
        shelf.arrive(4)
    assert shelf.on_flash() == [1, 2, 3]
    storage.writer.set_pinned("a", digest(3), is_pinned=False, max_pinned=1)
    shelf.arrive(4)
    assert shelf.on_flash() == [1, 2, 4]
    shelf.in_use.clear()
    shelf.arrive(5, at_s=NOW_S)
    assert shelf.on_flash() == [1, 4, 5]


def test_what_lies_idle_in_a_slot_goes_after_all_else_but_does_not_block_flash(storage):
    shelf = Shelf(storage, 3)
    for number in (1, 2, 3):
        shelf.arrive(number, at_s=float(number))
    shelf.idle |= {digest(1), digest(2)}
    shelf.arrive(4, at_s=4.0)
    assert shelf.on_flash() == [1, 2, 4]
    shelf.idle.add(digest(4))
    shelf.in_use.add(digest(1))
    shelf.arrive(5, at_s=5.0)
    assert shelf.on_flash() == [1, 4, 5]


def test_evicting_one_of_many_scans_no_table(storage, monkeypatch):
    shelf = Shelf(storage, 20)
    for number in range(1, 22):
        shelf.arrive(number, at_s=float(number))
    assert shelf.tier.num_evictions == 1
    monkeypatch.setattr(RegistryWriter, "evictable", None)
    for number in range(22, 32):
        shelf.arrive(number, at_s=time.time())
    assert shelf.tier.num_evictions == 11
    assert shelf.on_flash() == list(range(12, 32))
