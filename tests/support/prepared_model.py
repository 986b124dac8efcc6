"""The real model of the tests: prepared once, shared by everybody."""

from __future__ import annotations

import os
from pathlib import Path

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.prepare import DEFAULT_NAME, prepare

ROOT = Path(__file__).resolve().parents[2]


def home() -> Path:
    """The home directory of the tests: EDGELORA_HOME, or .edgelora in the checkout."""
    return Path(os.environ.get("EDGELORA_HOME") or ROOT / ".edgelora")


def prepared_model() -> Path:
    """Directory of the default model; prepares it when nobody has yet."""
    directory = home() / "models" / DEFAULT_NAME
    if not directory.is_dir():
        try:
            prepare(home=home())
        except ToolchainError:
            # Another test process may have been faster.
            if not directory.is_dir():
                raise
    return directory
