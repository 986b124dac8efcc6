"""A worker that writes the names of all its modules to a file when it ends."""

import atexit
import sys
from pathlib import Path

from services.chassis.server import run_service
from services.inference.__main__ import main


def write_modules() -> None:
    """Writes them to the file named on the command line, one a line."""
    Path(sys.argv[1]).write_text("\n".join(sys.modules))


if __name__ == "__main__":
    atexit.register(write_modules)
    run_service("inference", main)
