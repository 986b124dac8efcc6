"""Fair sharing among the tenants of one class by tokens served.

The virtual token counter of Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024
(arXiv 2401.00588): the tenant with the smallest counter goes next, its counter grows by the
tokens served, and a tenant that was idle is lifted to the level of those who wait, so that idling
earns no credit. Prompt and output tokens weigh the same.

Here a grant charges the estimate at once, and the release corrects it to what was used; a request
that is cancelled while it runs has used what it has used. Where the last places of a node are kept
for tenants that hold none (reserve.py), such a tenant may run ahead of the order by one request.
Between two tenants that both have waiting requests, the counters therefore differ by at most

    twice the largest estimate + sum of the corrections of requests then in flight

and the tokens charged to each over any such stretch of time by at most twice that.
"""

from __future__ import annotations

from collections.abc import Iterable


class VirtualTokenCounters:
    """Tokens charged to each tenant of one class. All start at 0, also after a restart."""

    def __init__(self) -> None:
        self._served_tokens: dict[str, int] = {}
        self._last_left: str | None = None

    def served_tokens(self, tenant_id: str) -> int:
        """Returns the tenant's counter, lifts included."""
        return self._served_tokens.get(tenant_id, 0)

    def join(self, tenant_id: str, waiting: Iterable[str]) -> None:
        """Lifts a tenant that had nothing waiting, before its new request is queued.

        `waiting` are the tenants that wait already; with none, the last one to leave sets the
        level.
        """
        levels = [self.served_tokens(other) for other in waiting]
        if not levels and self._last_left is not None:
            levels = [self.served_tokens(self._last_left)]
        level = min(levels, default=0)
        self._served_tokens[tenant_id] = max(self.served_tokens(tenant_id), level)

    def leave(self, tenant_id: str) -> None:
        """Notes that the tenant has nothing waiting any more."""
        self._last_left = tenant_id

    def charge(self, tenant_id: str, tokens: int) -> None:
        """Adds what a grant may cost."""
        self._served_tokens[tenant_id] = self.served_tokens(tenant_id) + tokens

    def settle(self, tenant_id: str, *, charged_tokens: int, used_tokens: int) -> None:
        """Corrects an earlier charge to what was used."""
        self.charge(tenant_id, used_tokens - charged_tokens)
