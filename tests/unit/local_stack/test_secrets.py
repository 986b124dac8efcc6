"""Secret files: random, kept, and closed to other users."""

import stat

from edgelora.local_stack.secrets import ensure_secret, write_secret


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_made_once_and_then_kept(tmp_path):
    first = ensure_secret(tmp_path / "seal.key")
    assert ensure_secret(tmp_path / "seal.key") == first
    assert len(bytes.fromhex(first)) == 32
    assert ensure_secret(tmp_path / "other.key") != first


def test_a_secret_file_is_readable_by_its_owner_only(tmp_path):
    path = tmp_path / "seal.key"
    ensure_secret(path)
    assert mode(path) == 0o600
    path.chmod(0o644)
    ensure_secret(path)
    assert mode(path) == 0o600


def test_a_half_written_secret_of_a_killed_launcher_is_not_used(tmp_path):
    (tmp_path / ".seal.key.partial").write_text("half")
    write_secret(tmp_path / "seal.key", "whole")
    assert (tmp_path / "seal.key").read_text() == "whole\n"
    assert [path.name for path in tmp_path.iterdir()] == ["seal.key"]
