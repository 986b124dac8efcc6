import os

import pytest

from edgelora.errors import ResourcePressureError
from services.adapter_store.remotes.package import sha256_digest
from services.adapter_store.remotes.quarantine import Quarantine
from tests.support.fake_clock import FakeClock

DIGEST = sha256_digest(b"abcdef")


@pytest.fixture
def clock():
    return FakeClock(1_000_000.0)


@pytest.fixture
def opened(tmp_path, clock):
    def open_(max_partial_bytes=100, min_free_bytes=0):
        return Quarantine(
            tmp_path / "quarantine",
            max_partial_bytes=max_partial_bytes,
            max_age_s=1000.0,
            min_free_bytes=min_free_bytes,
            unix_clock_s=clock,
        )

    return open_


def begin(quarantine, digest=DIGEST, size=6):
    partial = quarantine.begin("usb", digest, size)
    partial.load()
    return partial


def test_a_partial_file_goes_on_after_a_restart_and_is_hashed_again(opened, clock):
    quarantine = opened()
    partial = begin(quarantine)
    partial.append(b"abc")
    quarantine.keep(partial)
    os.utime(partial.path, (clock.now_s, clock.now_s))

    again = opened()
    again.sweep()
    partial = begin(again)
    assert partial.size_bytes == 3
    partial.append(b"def")
    partial.sync()
    assert partial.digest == DIGEST
    path = again.finish(partial)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"abcdef"
    again.remove(path)
    assert not path.exists()


def test_a_partial_file_that_is_too_long_starts_again(opened):
    quarantine = opened()
    partial = begin(quarantine, size=10)
    partial.append(b"0123456789")
    quarantine.keep(partial)
    assert begin(quarantine, size=6).size_bytes == 0


def test_old_and_foreign_things_are_swept_and_packages_never_survive(tmp_path, opened, clock):
    quarantine = opened()
    place = tmp_path / "quarantine" / "partial"
    outside = tmp_path / "outside"
    outside.write_bytes(b"x")
    digits = DIGEST.removeprefix("sha256:")
    for name, age_s in ((f"new@{digits}", 10), (f"old@{digits}", 2000), ("foreign", 10)):
        (place / name).write_bytes(b"x")
        os.utime(place / name, (clock.now_s - age_s,) * 2)
    (place / f"link@{digits}").symlink_to(outside)
    (place / "directory").mkdir()
    package = quarantine.new_package()
    (package / "weights").write_bytes(b"x")
    quarantine.sweep()
    assert [file.name for file in place.iterdir()] == [f"new@{digits}"]
    assert not package.exists()
    assert outside.exists()


def test_T32_a_link_in_the_place_of_a_partial_file_is_not_followed(tmp_path, opened):
    quarantine = opened()
    outside = tmp_path / "outside"
    outside.write_bytes(b"x")
    digits = DIGEST.removeprefix("sha256:")
    (tmp_path / "quarantine" / "partial" / f"usb@{digits}").symlink_to(outside)
    with pytest.raises(ResourcePressureError):
        quarantine.begin("usb", DIGEST, 6)
    assert outside.read_bytes() == b"x"


def test_the_longest_untouched_partial_files_make_room_and_running_ones_stay(opened, clock):
    quarantine = opened(max_partial_bytes=100)
    kept = []
    for number in range(3):
        partial = begin(quarantine, sha256_digest(bytes([number])), 30)
        partial.append(bytes(30))
        quarantine.keep(partial)
        os.utime(partial.path, (clock.now_s + number,) * 2)
        kept.append(partial.path)
    running = begin(quarantine, sha256_digest(b"running"), 40)
    assert [path.exists() for path in kept] == [False, True, True]
    with pytest.raises(ResourcePressureError):
        quarantine.begin("usb", sha256_digest(b"more"), 61)
    assert running.path.exists()
    quarantine.keep(running)
    assert begin(quarantine, sha256_digest(b"more"), 61).size_bytes == 0


def test_storage_that_has_to_stay_free_is_not_used(opened):
    with pytest.raises(ResourcePressureError):
        opened(min_free_bytes=2**62).begin("usb", DIGEST, 6)
