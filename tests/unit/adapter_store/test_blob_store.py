"""Blobs: named by content, whole or refused."""

import hashlib

import pytest

from edgelora.errors import DataCorruptError
from services.adapter_store.flash.blob_store import BlobStore

DATA = bytes(range(256)) * 2000
NAME = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def blobs(tmp_path):
    store = BlobStore(tmp_path / "blobs")
    file = tmp_path / "file"
    file.write_bytes(DATA)
    store.adopt(file, NAME)
    return store


def test_blob_is_read_back_in_pieces_and_read_only(blobs):
    pieces = list(blobs.read(NAME))
    assert b"".join(pieces) == DATA
    assert max(map(len, pieces)) <= 256 * 1024
    assert (blobs.directory / NAME).stat().st_mode & 0o777 == 0o400
    blobs.check(NAME, len(DATA))


@pytest.mark.parametrize("name", ["../x", "", "A" * 64, "a" * 63, "a" * 64 + "\n", "/etc/passwd"])
def test_no_other_name_becomes_a_path_T05(blobs, name):
    for use in (lambda: list(blobs.read(name)), lambda: blobs.remove(name)):
        with pytest.raises(ValueError, match="64 hex"):
            use()


def test_any_damage_is_found_F13(blobs):
    path = blobs.directory / NAME
    path.chmod(0o600)
    for damaged in (DATA[:-1], b"", DATA + b"x", b"\xff" + DATA[1:]):
        path.write_bytes(damaged)
        with pytest.raises(DataCorruptError):
            blobs.check(NAME, len(DATA))
    path.unlink()
    with pytest.raises(DataCorruptError):
        blobs.check(NAME, len(DATA))


def test_reader_keeps_what_it_opened(blobs):
    pieces = blobs.read(NAME)
    first = next(pieces)
    blobs.remove(NAME)
    blobs.remove(NAME)
    assert first + b"".join(pieces) == DATA


def test_sweep_keeps_what_is_used(blobs):
    (blobs.directory / ("0" * 64)).write_bytes(b"x")
    assert blobs.sweep({NAME}) == 1
    assert [path.name for path in blobs.directory.iterdir()] == [NAME]
