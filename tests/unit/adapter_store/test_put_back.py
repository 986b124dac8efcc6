"""A known encoded form back on flash: in place of nothing but itself."""

import asyncio
import hashlib

import pytest

from edgelora.errors import ResourcePressureError
from services.adapter_store.bases import ServedBases
from services.adapter_store.fair_turns import FairTurns
from services.adapter_store.flash.storage import open_storage
from services.adapter_store.flash.tier import FlashTier
from services.adapter_store.registration import RegistrationDesk
from services.adapter_store.registry.manifest import (
    AdapterContent,
    AdapterManifest,
    Blob,
    ServingForm,
)
from services.adapter_store.registry.writer import AdapterQuota
from services.adapter_store.usage import UsageLedger
from tests.support.tiny_base import tiny_base

BASE = tiny_base()
DATA, OTHER = b"encoded" * 100, b"another" * 100
CERTIFICATE = '{"edgelora": "1"}'


def blob(data: bytes) -> Blob:
    return Blob(name=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def content(data: bytes = DATA, **changes) -> AdapterContent:
    values = {
        "digest": "sha256:" + "d" * 64,
        "base_digest": BASE.digest,
        "rank": 4,
        "alpha": 8.0,
        "target_modules": ("q_proj",),
        "num_parameters": 100,
        "weights_bytes": 400,
        "form": ServingForm.ENCODED_3,
        "config": None,
        "weights": None,
        "encoded": blob(data),
        "certificate_digest": "sha256:" + "c" * 64,
        "is_on_flash": False,
    }
    return AdapterContent(**(values | changes))


class Place:
    """A desk over a directory, for one adapter that left flash."""

    def __init__(self, storage, directory, budget_bytes=10_000):
        self.storage = storage
        self.arrived = directory / "arrived"
        self.arrived.write_bytes(DATA)
        flash = FlashTier(
            storage.blobs,
            storage.writer,
            UsageLedger({}),
            budget_bytes=budget_bytes,
            min_residency_s=0.0,
            held=set,
            busy=set,
            unix_clock_s=lambda: 0.0,
        )
        self.desk = RegistrationDesk(
            bases=ServedBases(decoder=BASE),
            registry=storage.writer,
            flash=flash,
            verifier=None,
            turns=FairTurns(1),
            changing=asyncio.Lock(),
            default_quota=AdapterQuota(max_adapters=9),
            unix_clock_s=lambda: 0.0,
        )
        self.add("a", content())

    def add(self, tenant_id, of):
        manifest = AdapterManifest(
            tenant_id=tenant_id,
            content=of,
            registered_at_s=0.0,
            description="",
            package=None,
            parent_digest=None,
            is_pinned=False,
        )
        self.storage.writer.add(
            manifest, CERTIFICATE, alias=None, quota=AdapterQuota(max_adapters=9)
        )

    async def put_back(self):
        await self.desk.put_back(content(), self.arrived)

    def state(self):
        """The content as registered, and the blobs on flash."""
        names = sorted(path.name for path in self.storage.blobs.directory.iterdir())
        return self.storage.reader.content(content().digest), names


@pytest.fixture
def place(tmp_path):
    with open_storage(tmp_path / "store") as storage:
        yield Place(storage, tmp_path / "store")


async def test_what_was_evicted_is_as_it_was_before(place):
    await place.put_back()
    assert place.state() == (content(is_on_flash=True), [blob(DATA).name])
    assert place.storage.reader.certificate(content().digest) == CERTIFICATE
    place.storage.blobs.check(blob(DATA).name, len(DATA))


async def test_twice_is_as_good_as_once(place):
    await place.put_back()
    place.arrived.write_bytes(DATA)
    await place.put_back()
    assert place.state() == (content(is_on_flash=True), [blob(DATA).name])


async def test_what_was_deleted_meanwhile_stays_deleted(place):
    place.storage.writer.delete("a", content().digest)
    await place.put_back()
    assert place.state() == (None, [])


async def test_what_was_registered_in_another_form_meanwhile_keeps_that(place):
    newer = content(OTHER, is_on_flash=True)
    place.add("b", newer)
    await place.put_back()
    assert place.state() == (newer, [])


async def test_full_flash_refuses_it_and_nothing_changes(tmp_path):
    with open_storage(tmp_path / "store") as storage:
        place = Place(storage, tmp_path / "store", budget_bytes=len(DATA) - 1)
        with pytest.raises(ResourcePressureError):
            await place.put_back()
        assert place.state() == (content(), [])


def test_form_of_another_base_model_may_change(place):
    assert place.desk.lasting_form(content()) == blob(DATA)
    other = content(base_digest="sha256:" + "9" * 64)
    exact = content(form=ServingForm.EXACT, encoded=None, weights=blob(DATA))
    assert [place.desk.lasting_form(each) for each in (other, exact)] == [None, None]
