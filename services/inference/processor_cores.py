"""How many cores the threads of a back end have to themselves."""

from __future__ import annotations

import os
from pathlib import Path

_TOPOLOGY = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def count_physical_cores(root: Path = Path("/")) -> int:
    """Counts the physical cores this process may run on, at least 1.

    Two hyper-threads of one core share its multipliers, so a second compute thread there only
    takes turns with the first. A processor whose topology is not told counts as a core.
    """
    return len({_siblings(root, cpu) for cpu in os.sched_getaffinity(0)})


def _siblings(root: Path, cpu: int) -> str:
    try:
        return (root / _TOPOLOGY.format(cpu)).read_text(encoding="ascii").strip()
    except OSError:
        return str(cpu)
