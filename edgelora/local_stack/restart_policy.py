"""When a crashed service is started again, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Exponential back-off over a window of time."""

    first_delay_s: float = 0.2
    max_delay_s: float = 5.0
    max_crashes: int = 5
    """The service is given up at the first crash beyond this many within the window."""
    window_s: float = 60.0

    def delay_s(self, num_crashes: int) -> float:
        """Seconds to wait after the `num_crashes`-th crash within the window, from 1."""
        return min(self.max_delay_s, self.first_delay_s * 2.0 ** (num_crashes - 1))


@dataclass(slots=True)
class CrashHistory:
    """The crashes of one service."""

    policy: RestartPolicy
    _times_s: list[float] = field(default_factory=list)

    def record(self, now_s: float) -> float | None:
        """Notes a crash; returns the seconds to wait before the restart, None to give up."""
        oldest_s = now_s - self.policy.window_s
        self._times_s = [time_s for time_s in self._times_s if time_s > oldest_s] + [now_s]
        if len(self._times_s) > self.policy.max_crashes:
            return None
        return self.policy.delay_s(len(self._times_s))
