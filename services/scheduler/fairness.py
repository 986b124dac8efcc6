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

The level a tenant is lifted to holds estimates of requests that still run. When such a request
turns out to have used less, the lift shrinks with it: asking for much and using little lifts
nobody for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Lift:
    """What a counter was lifted by, less what was taken back of it."""

    tokens: int


@dataclass(slots=True)
class _Charge:
    """A charge that is not settled yet."""

    tenant_id: str
    lifts: dict[str, list[_Lift]] = field(default_factory=dict)
    """Tenant -> its lifts to a level that held this charge."""

    def is_held_by(self, tenant_id: str) -> bool:
        """Whether the tenant's counter still has this charge in it."""
        if tenant_id == self.tenant_id:
            return True
        return any(lift.tokens for lift in self.lifts.get(tenant_id, ()))


class VirtualTokenCounters:
    """Tokens charged to each tenant of one class. All start at 0, also after a restart."""

    def __init__(self) -> None:
        self._served_tokens: dict[str, int] = {}
        self._charges: dict[str, _Charge] = {}
        self._last_left: str | None = None

    def served_tokens(self, tenant_id: str) -> int:
        """Returns the tenant's counter, lifts included."""
        return self._served_tokens.get(tenant_id, 0)

    def join(self, tenant_id: str, waiting: Iterable[str]) -> None:
        """Lifts a tenant that had nothing waiting, before its new request is queued.

        `waiting` are the tenants that wait already; with none, the last one to leave sets the
        level.
        """
        lowest = min(waiting, key=self.served_tokens, default=self._last_left)
        if lowest is None:
            return
        lift = _Lift(self.served_tokens(lowest) - self.served_tokens(tenant_id))
        if lift.tokens <= 0:
            return
        self._add(tenant_id, lift.tokens)
        for charge in self._charges.values():
            if charge.is_held_by(lowest):
                charge.lifts.setdefault(tenant_id, []).append(lift)

    def leave(self, tenant_id: str) -> None:
        """Notes that the tenant has nothing waiting any more."""
        self._last_left = tenant_id

    def charge(self, tenant_id: str, ticket_id: str, tokens: int) -> None:
        """Adds what the grant of a ticket may cost; `settle` or `keep` must follow."""
        self._add(tenant_id, tokens)
        self._charges[ticket_id] = _Charge(tenant_id)

    def settle(self, ticket_id: str, *, charged_tokens: int, used_tokens: int) -> None:
        """Corrects the charge of a ticket to what was used."""
        charge = self._charges.pop(ticket_id)
        self._add(charge.tenant_id, used_tokens - charged_tokens)
        for tenant_id, lifts in charge.lifts.items():
            unused_tokens = charged_tokens - used_tokens
            for lift in lifts:
                taken_back = max(0, min(unused_tokens, lift.tokens))
                lift.tokens -= taken_back
                unused_tokens -= taken_back
                self._add(tenant_id, -taken_back)

    def keep(self, ticket_id: str) -> None:
        """Leaves the charge of a ticket as it is, for good."""
        del self._charges[ticket_id]

    def _add(self, tenant_id: str, tokens: int) -> None:
        self._served_tokens[tenant_id] = self.served_tokens(tenant_id) + tokens
