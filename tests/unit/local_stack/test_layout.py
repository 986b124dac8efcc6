"""Paths of a stack: short enough for sockets, private, and nobody else's."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from edgelora.local_stack.errors import StackError
from edgelora.local_stack.layout import ENCODER, SERVICES, StackLayout


@pytest.fixture
def layout(tmp_path):
    with tempfile.TemporaryDirectory() as runtime:  # its path is shorter than tmp_path's

        def make(home="home"):
            return StackLayout.of(tmp_path / home, {"XDG_RUNTIME_DIR": runtime})

        yield make


def test_each_home_has_its_own_run_directory_and_always_the_same(layout):
    one, other = layout("one"), layout("other")
    assert one.run_dir != other.run_dir
    assert one == layout("one")


def test_a_deep_home_still_gets_socket_paths_that_fit(tmp_path):
    deep = StackLayout.of(tmp_path / ("d" * 200) / ("e" * 200), {"TMPDIR": "/tmp"})
    for name in (*SERVICES, ENCODER):
        assert len(os.fsencode(deep.socket(name))) <= 107


def test_a_socket_path_that_cannot_fit_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(StackError, match="set TMPDIR to a shorter directory"):
        StackLayout.of(tmp_path, {"TMPDIR": "/tmp/" + "x" * 100})


def test_an_unusable_runtime_directory_is_passed_over(tmp_path):
    # A socket's path is short, that of a test's directory need not be.
    with tempfile.TemporaryDirectory(prefix="edgelora-") as name:
        found = StackLayout.of(tmp_path, {"XDG_RUNTIME_DIR": "/nonexistent", "TMPDIR": name})
        assert found.run_dir.parent == Path(name)


def test_directories_are_closed_to_other_users(layout):
    made = layout()
    made.make_home()
    made.make_run_dir()
    for directory in (made.home, made.secrets, made.keys, made.logs, made.run_dir, made.pids):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_run_directory_that_is_a_link_elsewhere_is_not_used(tmp_path, layout):
    made = layout()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    made.run_dir.symlink_to(elsewhere)
    with pytest.raises(StackError, match="is not a directory of yours"):
        made.make_run_dir()
    assert (elsewhere / "precious").exists()


def test_a_home_that_cannot_be_made_is_one_clear_line(tmp_path, layout):
    (tmp_path / "file").touch()
    with pytest.raises(StackError, match="choose another --home"):
        layout("file/home").make_home()
