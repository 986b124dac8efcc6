"""A directory is published whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgelora.toolchain import published_directory as module
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.published_directory import (
    published_directory,
    published_file,
    restore_interrupted,
)


@pytest.fixture(params=["exchange", "renames"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With and without a file system that can exchange two names."""
    if request.param == "renames":
        monkeypatch.setattr(module, "_exchange", lambda one, other: False)
    return request.param


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


@pytest.mark.parametrize("way", ["exchange"], indirect=True)
def test_target_is_there_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    target.mkdir()

    def rename(self: Path, other: Path) -> None:
        raise AssertionError("a kill between two renames leaves no target")

    with published_directory(target) as directory:
        (directory / "file").write_text("new")
        monkeypatch.setattr(Path, "rename", rename)
    assert (target / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_run_had_moved_aside_comes_back(tmp_path: Path) -> None:
    (tmp_path / ".out.old").mkdir()
    (tmp_path / ".out.old" / "file").write_text("old")
    (tmp_path / ".out.partial").mkdir()
    with pytest.raises(ValueError), published_directory(tmp_path / "out"):
        raise ValueError
    assert (tmp_path / "out" / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    restore_interrupted(tmp_path / "out")
    assert (tmp_path / "out" / "file").read_text() == "old"


def test_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("mine")
    (tmp_path / "out").symlink_to("elsewhere")
    for content in ("first", "second"):
        with published_directory(tmp_path / "out") as directory:
            (directory / "file").write_text(content)
    assert (tmp_path / "out" / "file").read_text() == "second"
    assert (tmp_path / "elsewhere" / "file").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "out"]


@pytest.mark.parametrize("publish", [published_directory, published_file])
def test_two_at_once_into_the_same_place_are_refused(tmp_path: Path, publish) -> None:
    with publish(tmp_path / "out") as partial:
        with pytest.raises(ToolchainError, match="another process writes 'out'"):
            publish(tmp_path / "out").__enter__()
        assert partial.exists()
    assert (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("publish", [published_directory, published_file])
@pytest.mark.parametrize("left", ["file", "directory", "link", "broken link"])
def test_whatever_lies_in_the_way_of_a_partial_one_is_removed_and_no_link_followed(
    tmp_path: Path, publish, left: str
) -> None:
    other, partial = tmp_path / "other", tmp_path / ".out.partial"
    other.write_text("kept")
    match left:
        case "file":
            partial.write_text("half")
        case "directory":
            (partial / "half").mkdir(parents=True)
        case _:
            partial.symlink_to(other if left == "link" else tmp_path / "nowhere")
    with publish(tmp_path / "out") as path:
        if path.is_file():
            path.write_text("new")
    assert other.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]


def test_a_link_that_leads_nowhere_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with published_directory(tmp_path / "out") as directory:
        (directory / "file").write_text("new")
    assert (tmp_path / "out" / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("place", [".", ".."])
def test_a_place_without_a_name_is_refused(place: str) -> None:
    with pytest.raises(ToolchainError, match="needs a name"):
        published_directory(Path(place)).__enter__()
