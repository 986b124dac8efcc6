"""Which boot of the node this is: times of the boot clock mean something within one boot only."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """A name that is new with each boot."""
    return _BOOT_ID.read_text().strip()
