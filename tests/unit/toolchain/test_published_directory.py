"""A directory is published whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgelora.toolchain.published_directory import published_directory


def test_directory_appears_at_the_end_only(tmp_path: Path) -> None:
    target = tmp_path / "sub" / "out"
    with published_directory(target) as directory:
        (directory / "file").write_text("new")
        assert not target.exists()
    assert (target / "file").read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failure_keeps_the_old_directory_and_leaves_nothing(
    tmp_path: Path, error: type[BaseException]
) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "file").write_text("old")
    with pytest.raises(error), published_directory(target) as directory:
        (directory / "file").write_text("half")
        raise error
    assert (target / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_old_directory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "only-in-old").write_text("old")
    with published_directory(target) as directory:
        (directory / "file").write_text("new")
        assert (target / "only-in-old").exists()
    assert [path.name for path in target.iterdir()] == ["file"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_remains_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".out.partial").mkdir()
    (tmp_path / ".out.partial" / "half").write_text("half")
    with published_directory(tmp_path / "out") as directory:
        assert list(directory.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
