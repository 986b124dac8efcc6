"""The Makefile's own words where a tool is missing."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ("cmake", "clang++", "run-clang-tidy")


@pytest.mark.parametrize("missing", TOOLS)
def test_lint_of_the_core_says_what_to_install(tmp_path, missing):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "services/inference/native").mkdir(parents=True)
    path = tmp_path / "path"
    path.mkdir()
    for program in ("sh", "find"):
        (path / program).symlink_to(shutil.which(program))
    for tool in TOOLS:
        if tool != missing:
            (path / tool).symlink_to(shutil.which("false"))
    done = subprocess.run(
        [shutil.which("make"), "native-lint"],
        cwd=tmp_path,
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"native-lint: {missing} is missing: run 'apt-get install")
