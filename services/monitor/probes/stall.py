"""Pressure stall information: how long tasks waited for a resource (Linux, /proc/pressure)."""

from __future__ import annotations

import re
from typing import Literal

from services.monitor.probes.sensor_files import SensorFiles


class StallProbe:
    """Reads the 10 s average of "some task stalled"."""

    def __init__(self, files: SensorFiles) -> None:
        self._files = files

    def read(self, resource: Literal["cpu", "memory", "io"]) -> float | None:
        """Returns a share, 0 to 1; None where the kernel does not tell."""
        text = self._files.text(f"proc/pressure/{resource}") or ""
        found = re.search(r"^some avg10=(\d+(?:\.\d+)?) ", text, re.MULTILINE)
        return min(1.0, float(found[1]) / 100.0) if found else None
