"""A native core of which a part is missing or damaged is told as such, and never imported half."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numpy.linalg import _umath_linalg

from services.chassis.native_core import native_core_obstacle

LIBRARY = "libedgelora_native.so"
ASK = """
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.weight_forms import chosen_forms
from services.inference.backends.native_backend import NativeBackend
print(NativeBackend.probe())
print(chosen_forms(None))
try:
    chosen_forms("native")
except ToolchainError as error:
    print(error)
"""


def remove(name):
    return lambda package: (package / name).unlink()


def rewrite(name, content):
    return lambda package: (package / name).write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        remove(LIBRARY),
        rewrite(LIBRARY, b""),
        rewrite(LIBRARY, b"#!/bin/sh\n"),
        lambda package: shutil.copy(_umath_linalg.__file__, package / LIBRARY),
        rewrite("__init__.py", b""),
        remove("sampling.py"),
        remove("matrices.py"),
        remove("packing.py"),
        rewrite("engine.py", b""),
        rewrite("engine.py", b"\0"),
        rewrite("packing.py", b"\xff"),
        rewrite("packing.py", b"def"),
    ],
)
def test_a_damaged_core_is_an_obstacle_with_its_remedy(tmp_path, damage):
    spec = importlib.util.find_spec("edgelora_native")
    if spec is None:
        pytest.skip("the native core is not installed")
    package = tmp_path / "edgelora_native"
    shutil.copytree(Path(spec.origin).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    damage(package)
    result = subprocess.run(
        [sys.executable, "-c", ASK],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    told, forms, refused = result.stdout.splitlines()
    assert told == "the native core is damaged: run `make native`"
    assert forms == "['float32']"
    assert refused == f"no native weights: {told}; or use --weights float32"


def test_a_core_of_another_release_is_an_obstacle_with_its_remedy(monkeypatch):
    core = pytest.importorskip("edgelora_native", reason="the native core is not installed")
    assert native_core_obstacle() is None
    monkeypatch.setattr(core, "INTERFACE", core.INTERFACE - 1)
    assert "make native" in native_core_obstacle()
    monkeypatch.delattr(core, "INTERFACE")
    assert "another release" in native_core_obstacle()
