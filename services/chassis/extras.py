"""How an optional part of the project is installed; the project itself is on no package index."""

from __future__ import annotations

import shlex
import sys


def install_command(extra: str) -> str:
    """Returns the command, for the source tree, that adds an extra of pyproject.toml to the Python
    that runs."""
    return f"{shlex.quote(sys.executable)} -m pip install -e '.[{extra}]'"
