"""The services' log files, kept to a bounded size."""

from __future__ import annotations

import shutil
from pathlib import Path

MAX_LOG_BYTES = 8 * 2**20
"""Beyond this a log is rotated: with its one predecessor a service keeps twice as much."""


def rotate(path: Path, max_bytes: int = MAX_LOG_BYTES) -> bool:
    """Moves a log's content to `<name>.1` once it is larger than `max_bytes`.

    The file is copied and cut, not renamed: its writer appends to an open descriptor and need not
    know. What is written between the two steps is lost. Returns whether it was rotated.
    """
    try:
        if path.stat().st_size <= max_bytes:
            return False
        shutil.copyfile(path, path.with_name(path.name + ".1"))
        with path.open("r+b") as file:
            file.truncate(0)
    except OSError:
        return False  # gone, or no space: the next round tries again
    return True


def last_line(path: Path, max_bytes: int = 4096) -> str:
    """Returns the last line of a log that holds something, "" when there is none."""
    lines = _last_lines(path, max_bytes)
    return lines[-1] if lines else ""


def last_mistakes(path: Path, service: str, max_bytes: int = 4096) -> list[str]:
    """Returns the lines of a service that ended for its settings: the first bears its name."""
    lines = _last_lines(path, max_bytes)
    starts = [number for number, line in enumerate(lines) if line.startswith(f"{service}: ")]
    return lines[starts[-1] if starts else -1 :]


def _last_lines(path: Path, max_bytes: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - max_bytes))
            tail = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.strip() for line in tail.splitlines() if line.strip()]
