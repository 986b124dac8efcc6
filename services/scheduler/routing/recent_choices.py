"""What was chosen a moment ago: requests that come together agree on what to load.

A choice is known from the queue and the leases once its request waits; until then it is known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_HOLD_S = 0.5


class RecentChoices:
    """The choices of the last half second, each tenant's for itself. Pure but for its memory."""

    def __init__(self) -> None:
        self._choices: deque[tuple[float, str, str]] = deque()

    def note(self, tenant_id: str, digests: Iterable[str], now_s: float) -> None:
        """Takes what was chosen for a request of the tenant."""
        self._forget(now_s)
        self._choices.extend((now_s, tenant_id, digest) for digest in digests)

    def of(self, tenant_id: str, now_s: float) -> frozenset[str]:
        """Returns what was chosen for the tenant."""
        self._forget(now_s)
        return frozenset(digest for _, owner, digest in self._choices if owner == tenant_id)

    def _forget(self, now_s: float) -> None:
        while self._choices and self._choices[0][0] <= now_s - _HOLD_S:
            self._choices.popleft()
