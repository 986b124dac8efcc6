"""The last moments at which waiting requests are still worth starting."""

from __future__ import annotations

import bisect
from operator import itemgetter


class StartLimits:
    """Ticket ids in order of their last moment to start. Only requests with a deadline are here."""

    def __init__(self) -> None:
        self._ordered: list[tuple[float, str]] = []
        self._start_by_s: dict[str, float] = {}

    def add(self, ticket_id: str, start_by_s: float) -> None:
        """Notes the last moment of a request."""
        self._start_by_s[ticket_id] = start_by_s
        bisect.insort(self._ordered, (start_by_s, ticket_id))

    def discard(self, ticket_id: str) -> None:
        """Forgets a request; one without a deadline is not here."""
        start_by_s = self._start_by_s.pop(ticket_id, None)
        if start_by_s is not None:
            del self._ordered[bisect.bisect_left(self._ordered, (start_by_s, ticket_id))]

    def next_s(self) -> float | None:
        """Returns the earliest of the moments; None when nobody has one."""
        return self._ordered[0][0] if self._ordered else None

    def passed(self, now_s: float) -> list[str]:
        """Returns whose moment has come. They stay until discarded."""
        num_late = bisect.bisect_right(self._ordered, now_s, key=itemgetter(0))
        return [ticket_id for _, ticket_id in self._ordered[:num_late]]
