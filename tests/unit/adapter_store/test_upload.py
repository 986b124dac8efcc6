"""Staging: bounded, ordered, hashed, and gone when it ends."""

import errno
import hashlib
import os
import shutil

import pytest

from edgelora.errors import (
    AdapterRejectedError,
    InvalidRequestError,
    QueueFullError,
    ResourcePressureError,
)
from services.adapter_store.upload import UploadArea


def area(tmp_path, **changes) -> UploadArea:
    options = {"max_adapter_bytes": 1000, "max_uploads": 2, "min_free_bytes": 0}
    return UploadArea(tmp_path / "staging", **(options | changes))


def test_finished_upload_holds_the_bytes_and_their_hash(tmp_path):
    uploads = area(tmp_path)
    upload = uploads.begin({"config": 3, "weights": 5, "probe": 2})
    upload.write("config", b"abc")
    upload.write("weights", b"12")
    upload.write("weights", b"345")
    upload.write("probe", b"{}")
    files = upload.finish()
    assert files.weights.read_bytes() == b"12345"
    assert files.probe.read_bytes() == b"{}"
    assert files.weights_sha256 == hashlib.sha256(b"12345").digest()
    assert files.weights.stat().st_mode & 0o777 == 0o600
    uploads.end(upload)
    assert list((tmp_path / "staging").iterdir()) == []


@pytest.mark.parametrize(
    ("sizes", "field"),
    [
        ((0, 5), "header.config_size_bytes"),
        ((3, 0), "header.weights_size_bytes"),
        ((2**20 + 1, 5), "header.config_size_bytes"),
        ((3, 1001), "header.weights_size_bytes"),
        ((3, 2**64 - 1), "header.weights_size_bytes"),
        ((3, 5, 2**16 + 1), "header.probe_size_bytes"),
    ],
)
def test_sizes_are_judged_first_A23(tmp_path, sizes, field):
    with pytest.raises(AdapterRejectedError) as caught:
        area(tmp_path).begin(dict(zip(("config", "weights", "probe"), sizes, strict=False)))
    assert caught.value.field == field
    assert list((tmp_path / "staging").iterdir()) == []


def test_places_are_bounded_and_given_back(tmp_path):
    uploads = area(tmp_path)
    first = uploads.begin({"config": 1, "weights": 1})
    uploads.begin({"config": 1, "weights": 1})
    with pytest.raises(QueueFullError) as caught:
        uploads.begin({"config": 1, "weights": 1})
    assert caught.value.retry_after_s
    uploads.end(first)
    uploads.end(uploads.begin({"config": 1, "weights": 1}))


def test_announced_bytes_of_running_uploads_count_as_used(tmp_path):
    stat = os.statvfs(tmp_path)
    free = stat.f_bavail * stat.f_frsize
    uploads = area(tmp_path, max_adapter_bytes=2 * free)
    uploads.end(uploads.begin({"config": 1, "weights": free // 3}))
    uploads.begin({"config": 1, "weights": 2 * free // 3})
    with pytest.raises(ResourcePressureError) as caught:
        uploads.begin({"config": 1, "weights": 2 * free // 3})
    assert caught.value.metadata == {"resource": "storage"}


def test_failing_storage_is_reported_as_such_F11_F12(tmp_path, monkeypatch):
    uploads = area(tmp_path)
    upload = uploads.begin({"config": 3, "weights": 5})
    for number in (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT):

        def fail(*_arguments, number=number):
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched, pytest.raises(ResourcePressureError):
            patched.setattr(os, "write", fail)
            upload.write("config", b"abc")
        with monkeypatch.context() as patched, pytest.raises(ResourcePressureError):
            patched.setattr(os, "fsync", fail)
            whole = uploads.begin({"config": 1, "weights": 1})
            whole.write("config", b"a")
            whole.write("weights", b"b")
            try:
                whole.finish()
            finally:
                uploads.end(whole)


def test_short_writes_are_continued_F12(tmp_path, monkeypatch):
    upload = area(tmp_path).begin({"config": 3, "weights": 5})
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:1]))
    upload.write("config", b"abc")
    upload.write("weights", b"12345")
    assert upload.finish().weights.read_bytes() == b"12345"


def test_incomplete_upload_can_not_be_finished(tmp_path):
    upload = area(tmp_path).begin({"config": 3, "weights": 5})
    with pytest.raises(InvalidRequestError, match="cut"):
        upload.finish()


def test_files_come_whole_and_in_order(tmp_path):
    upload = area(tmp_path).begin({"config": 2, "weights": 2, "probe": 2})
    upload.write("config", b"a")
    for early in ("weights", "probe"):
        with pytest.raises(InvalidRequestError, match="cut"):
            upload.write(early, b"b")
    upload.write("config", b"a")
    upload.write("weights", b"b")
    with pytest.raises(InvalidRequestError, match="longer"):
        upload.write("config", b"a")
    with pytest.raises(InvalidRequestError, match="longer"):
        upload.write("weights", b"bb")


def test_probe_that_was_not_announced_is_refused(tmp_path):
    upload = area(tmp_path).begin({"config": 1, "weights": 1})
    upload.write("config", b"a")
    upload.write("weights", b"b")
    with pytest.raises(InvalidRequestError, match="longer"):
        upload.write("probe", b"c")
    assert upload.finish().probe is None


def test_start_sweeps_what_a_crash_left(tmp_path):
    area(tmp_path).begin({"config": 1, "weights": 1})
    (tmp_path / "staging" / "stray").write_bytes(b"x")
    (tmp_path / "staging" / "link").symlink_to(tmp_path)
    uploads = area(tmp_path)
    assert uploads.sweep() == 3
    assert list((tmp_path / "staging").iterdir()) == []
    assert tmp_path.exists()


def test_upload_that_storage_holds_on_to_goes_with_the_next_one(tmp_path, monkeypatch):
    uploads = area(tmp_path)
    held = uploads.begin({"config": 1, "weights": 1})
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_arguments, **_options: None)
        uploads.end(held)
    assert held.directory.exists()
    uploads.end(uploads.begin({"config": 1, "weights": 1}))
    assert not held.directory.exists()


def test_upload_that_can_not_begin_leaves_nothing(tmp_path, monkeypatch):
    uploads = area(tmp_path)
    before = set(os.listdir("/proc/self/fd"))
    opening = os.open

    def fail_at_the_weights(path, *arguments, **options):
        if str(path).endswith("weights"):
            raise OSError(errno.EIO, "failed")
        return opening(path, *arguments, **options)

    monkeypatch.setattr(os, "open", fail_at_the_weights)
    with pytest.raises(ResourcePressureError):
        uploads.begin({"config": 1, "weights": 1})
    monkeypatch.undo()
    assert list((tmp_path / "staging").iterdir()) == []
    assert set(os.listdir("/proc/self/fd")) == before
