"""Builds the native core beside its Python package, and packs a tiny random model for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "services/inference/native"
LIBRARY = "libedgelora_native.so"


def missing_tool() -> str | None:
    """What the build needs and this machine lacks; None when it can build."""
    return next((tool for tool in ("c++", "cmake") if shutil.which(tool) is None), None)


def build(directory: Path) -> Path:
    """Returns a folder to put on PYTHONPATH, with the package and its fresh library."""
    build_directory = directory / "build"
    for command in (
        ["cmake", "-S", SOURCE, "-B", build_directory, "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", build_directory, "--parallel", "2"],
    ):
        subprocess.run(command, check=True, capture_output=True)
    package = directory / "edgelora_native"
    shutil.copytree(SOURCE / "python/edgelora_native", package)
    shutil.copy(build_directory / LIBRARY, package)
    return directory


def probe(package_folder: Path, output: Path, instruction_set: str) -> str | None:
    """Runs tests/support/native_probe.py with an instruction set; returns why it could not."""
    result = subprocess.run(
        [sys.executable, ROOT / "tests/support/native_probe.py", output],
        env={"PYTHONPATH": str(package_folder), "EDGELORA_ISA": instruction_set},
        capture_output=True,
        text=True,
    )
    if "this processor lacks" in result.stderr:
        return "this processor lacks it"
    assert result.returncode == 0, result.stderr
    return None


def refusal(package_folder: Path, file: Path) -> str:
    """Opens a file that is no good model, in a process of its own; returns what was said."""
    code = (
        "import sys, pathlib, edgelora_native as n\n"
        "limits = n.Limits(num_kv_blocks=4, max_loras=1, max_lora_rank=4, max_step_tokens=8, "
        "num_threads=1)\n"
        "try:\n    n.Engine(pathlib.Path(sys.argv[1]), limits)\n"
        "except n.NativeError as error:\n    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, file],
        env={"PYTHONPATH": str(package_folder)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
