"""Slows down whoever keeps presenting wrong keys. Pure: the clock is passed in.

Only failures wait; a right key is never delayed, so nobody can lock a tenant out by guessing from
the tenant's own address.
"""

from __future__ import annotations

from collections import OrderedDict

_MAX_SOURCES = 4096


class FailureThrottle:
    """Spaces the answers to one source's failed attempts, after a free burst."""

    def __init__(
        self, *, burst: int = 10, spacing_s: float = 0.2, max_delay_s: float = 2.0
    ) -> None:
        self._burst_s = burst * spacing_s
        self._spacing_s = spacing_s
        self._max_delay_s = max_delay_s
        self._busy_until_s: OrderedDict[str, float] = OrderedDict()

    def delay_s(self, source: str, now_s: float) -> float:
        """Counts one failure; returns how long its answer must wait.

        The table holds the 4096 most recent sources and no more.
        """
        busy_until_s = max(now_s, self._busy_until_s.pop(source, now_s)) + self._spacing_s
        # Debt beyond the longest delay is forgiven: the answers are as slow as they get.
        busy_until_s = min(busy_until_s, now_s + self._burst_s + self._max_delay_s)
        self._busy_until_s[source] = busy_until_s
        if len(self._busy_until_s) > _MAX_SOURCES:
            self._busy_until_s.popitem(last=False)
        # To the microsecond: what a sum of fractions is off by is no delay.
        return max(0.0, round(busy_until_s - now_s - self._burst_s, 6))
