"""Packages from npm, installed into a directory that is thrown away."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_INSTALL_S = 90


def install_npm_package(directory: Path, package: str) -> None:
    """Installs `name@version` into `directory`; skips the test where npm cannot."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not here: apt-get install nodejs npm")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", package]
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=_INSTALL_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install {package} within {_INSTALL_S} seconds")
    if done.returncode != 0:
        pytest.skip(f"npm cannot install {package} here: no registry, or no network")
