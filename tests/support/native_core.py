"""Builds the native core in its variants, and runs what belongs to it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "services/inference/native"
BUILDS = ROOT / "build/native"
"""Builds are kept, so that the next run compiles what has changed."""
LIBRARY = "libedgelora_native.so"

_FUZZED = ("-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2")
# Compiled in half the time; the checks themselves take moments.
_QUICKLY_BUILT = ("-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1")
VARIANTS: dict[str, tuple[str, ...]] = {
    "release": ("-DCMAKE_BUILD_TYPE=Release",),
    "aarch64": (
        "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++",
        "-DCMAKE_EXE_LINKER_FLAGS=-static",
    ),
    "address": (*_QUICKLY_BUILT, "-DEDGELORA_SANITIZE=address,undefined"),
    "thread": (*_QUICKLY_BUILT, "-DEDGELORA_SANITIZE=thread"),
    "fuzz": (
        *_FUZZED,
        "-DCMAKE_CXX_COMPILER=clang++",
        "-DEDGELORA_SANITIZE=address,undefined",
        "-DEDGELORA_FUZZ=ON",
    ),
}
_TOOLS = {
    "aarch64": ("aarch64-linux-gnu-g++", "qemu-aarch64"),
    "fuzz": ("clang++",),
}

_PACKAGES = {
    "c++": "g++",
    "clang++": "clang libclang-rt-dev",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu libc6-dev-arm64-cross",
    "qemu-aarch64": "qemu-user",
}
"""Debian packages of tools that are not called as they are."""


def missing_tool(variant: str = "release") -> str | None:
    """What a variant needs and this machine lacks; None when it can be built and run."""
    tools = ("c++", "cmake", *_TOOLS.get(variant, ()))
    missing = next((tool for tool in tools if shutil.which(tool) is None), None)
    if missing is not None:
        return f"{missing} (Debian: {_PACKAGES.get(missing, missing)})"
    if variant == "fuzz" and not _has_fuzzer():
        return "clang's libFuzzer (Debian: libclang-rt-dev)"
    return None


def _has_fuzzer() -> bool:
    result = subprocess.run(["clang++", "-print-resource-dir"], capture_output=True, text=True)
    return any(Path(result.stdout.strip()).glob("lib/**/libclang_rt.fuzzer*.a"))


def build(variant: str = "release") -> Path:
    """Builds a variant, warnings being errors; returns the folder with what came out."""
    directory = BUILDS / variant
    directory.mkdir(parents=True, exist_ok=True)
    with (BUILDS / f"{variant}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            ["cmake", "-S", SOURCE, "-B", directory, "-DEDGELORA_CHECK=ON", *VARIANTS[variant]],
            ["cmake", "--build", directory, "--parallel", "2"],
        ):
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return directory


def package(directory: Path) -> Path:
    """Returns a folder to put on PYTHONPATH, with the package and its fresh library."""
    target = directory / "edgelora_native"
    shutil.copytree(
        SOURCE / "python/edgelora_native", target, ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(build() / LIBRARY, target)
    return directory


def write_models(package_folder: Path, folder: Path) -> None:
    """Writes the models of tests/support/native_models.py."""
    run_python(package_folder, ROOT / "tests/support/native_models.py", folder)


def run_python(
    package_folder: Path, *words: str | Path, instruction_set: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs Python with the package, in a process of its own; it must succeed."""
    result = subprocess.run(
        [sys.executable, *words],
        env={"PYTHONPATH": str(package_folder), "EDGELORA_ISA": instruction_set},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result


def check(directory: Path, *words: str | Path, instruction_set: str = "") -> str | None:
    """Runs a build's native_check, which must succeed; returns why this machine can not."""
    emulator = ["qemu-aarch64"] if directory.name == "aarch64" else []
    result = subprocess.run(
        [*emulator, directory / "native_check", *words],
        env=os.environ | {"EDGELORA_ISA": instruction_set},
        capture_output=True,
        text=True,
    )
    if "EDGELORA_ISA names" in result.stderr:
        return "this processor lacks it"
    if "unexpected memory mapping" in result.stderr:
        return "the thread sanitizer can not map its memory under this kernel"
    assert result.returncode == 0, result.stderr[-8000:]
    return None


def probe(
    package_folder: Path, output: Path, instruction_set: str, kinds: str = "plain"
) -> str | None:
    """Runs tests/support/native_probe.py with an instruction set; returns why it could not."""
    result = subprocess.run(
        [sys.executable, ROOT / "tests/support/native_probe.py", output, kinds],
        env={"PYTHONPATH": str(package_folder), "EDGELORA_ISA": instruction_set},
        capture_output=True,
        text=True,
    )
    if "EDGELORA_ISA names" in result.stderr:
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
    return run_python(package_folder, "-c", code, file).stdout
