"""When a key with an end still holds. Pure: the clocks are passed in.

The end is a wall-clock time, so that it outlives a reboot, and a boot-clock time, which nobody can
set. Within the boot that gave the key its end the earlier of the two counts: a wall clock that is
set back does not make the key last longer. A wall clock that stands before the moment at which the
end was given is wrong (a device without a battery-backed clock, just started): until it is right,
keys with an end do not hold. Keys without an end need no clock.
"""

from __future__ import annotations

from dataclasses import dataclass

_STEP_BACK_S = 60.0
"""How far a clock that is kept right may step back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """One moment, on both clocks."""

    wall_s: float
    boot_s: float
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEnd:
    """The end a key was given, and when."""

    given_at_s: float
    """Unix time."""
    expires_at_s: float
    """Unix time."""
    expires_at_boot_s: float
    boot_id: str

    @classmethod
    def after(cls, seconds: float, now: Now) -> KeyEnd:
        """The end that comes so many seconds from now."""
        return cls(
            given_at_s=now.wall_s,
            expires_at_s=now.wall_s + seconds,
            expires_at_boot_s=now.boot_s + seconds,
            boot_id=now.boot_id,
        )

    def has_come(self, now: Now) -> bool:
        """Whether the key holds no longer; true also where the clock is known to be wrong."""
        if now.boot_id == self.boot_id and now.boot_s >= self.expires_at_boot_s:
            return True
        return not self.given_at_s - _STEP_BACK_S <= now.wall_s < self.expires_at_s
