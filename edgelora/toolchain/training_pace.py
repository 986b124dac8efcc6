"""How long a training run takes, told early."""

from __future__ import annotations

from collections.abc import Callable

from edgelora.toolchain.training_hardware import Hardware

_PACE_STEPS = 3
"""After so many, without the first, the time of the whole run is told."""


class Pace:
    """Says how long the steps that are left will take, as soon as a few of them tell."""

    def __init__(self, steps: int, hardware: Hardware, say: Callable[[str], None]) -> None:
        self._steps = steps
        self._hardware = hardware
        self._say = say
        self._seconds: list[float] = []

    def saw(self, seconds: float) -> None:
        """Takes note of one step."""
        self._seconds.append(seconds)
        if len(self._seconds) == _PACE_STEPS and self._steps > _PACE_STEPS:
            mean = sum(self._seconds[1:]) / (_PACE_STEPS - 1)
            self._say(
                f"Training takes about {duration(mean * self._steps)}: {self._steps} steps, "
                f"{self._hardware.described()}"
            )


def duration(seconds: float) -> str:
    """`50 s`, `12 min` or `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
