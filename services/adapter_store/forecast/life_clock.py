"""How many days the model has lived. Pure: both clocks are given."""

from __future__ import annotations

_DAY_S = 86_400.0
_MAX_ABSENCE_DAYS = 30.0


class LifeClock:
    """A clock that never goes back and can not be made to leap.

    While the process runs it follows the boot clock, which setting the wall clock does not move.
    Over a restart it follows the wall clock, at most 30 days: habits fade no further at once, and
    a wall clock set back only stops it.
    """

    def __init__(self, days: float = 0.0, unix_s: float | None = None) -> None:
        """Goes on from `days` at `unix_s`, both of an earlier run."""
        self.days = days
        self._unix_s = unix_s
        self._boot_s: float | None = None

    def advance(self, unix_s: float, boot_s: float) -> float:
        """Takes the time of both clocks; returns the seconds that passed."""
        if self._boot_s is not None:
            elapsed_s = max(0.0, boot_s - self._boot_s)
        elif self._unix_s is not None:
            elapsed_s = min(max(0.0, unix_s - self._unix_s), _MAX_ABSENCE_DAYS * _DAY_S)
        else:
            elapsed_s = 0.0
        self._unix_s = unix_s
        self._boot_s = boot_s if self._boot_s is None else max(self._boot_s, boot_s)
        self.days += elapsed_s / _DAY_S
        return elapsed_s
