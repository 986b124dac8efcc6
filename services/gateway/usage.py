"""What each tenant has used: of the requests that ended, and of the generations that run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from edgelora.errors import QuotaExceededError
from services.gateway.ended_generation import EndedGeneration
from services.gateway.ended_request import EndedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A sum of what was used."""

    num_requests: int = 0
    """Accepted generations and encodings."""
    num_refused: int = 0
    """Those refused for the tenant's own quota."""
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    engine_s: float = 0.0
    """Share of the time the engine's steps took."""

    @property
    def num_tokens(self) -> int:
        """Prompt and output."""
        return self.num_prompt_tokens + self.num_output_tokens

    def __add__(self, other: Used) -> Used:
        return Used(
            num_requests=self.num_requests + other.num_requests,
            num_refused=self.num_refused + other.num_refused,
            num_prompt_tokens=self.num_prompt_tokens + other.num_prompt_tokens,
            num_output_tokens=self.num_output_tokens + other.num_output_tokens,
            engine_s=self.engine_s + other.engine_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """All a tenant has used."""

    used: Used
    since_s: float
    """Unix time of its first use."""


Running = Callable[[], Iterable[tuple[str, Used]]]
"""Tenant and use so far of every generation that runs, without its engine time."""


class Usage:
    """The totals of all tenants.

    The engine tells a request's share of its time when the request ends. A request that was cut,
    or still runs, is taken to have cost what the node's tokens cost on average: those of
    generations, or those of encodings, which cost far less.
    """

    def __init__(
        self,
        kept: Mapping[str, UsageTotal],
        *,
        power_watts: float | None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`kept`: the totals of earlier runs. `power_watts`: what the node draws, for estimates."""
        self._ended = {tenant_id: total.used for tenant_id, total in kept.items()}
        self._since_s = {tenant_id: total.since_s for tenant_id, total in kept.items()}
        self._power_watts = power_watts
        self._wall_clock = wall_clock
        self._running: Running = tuple
        self._wholes: dict[type[EndedRequest], Used] = {}
        """Of the requests of each kind whose share the engine told."""
        self._told = dict(kept)
        """What `changed` gave last."""

    def watch(self, running: Running) -> None:
        """Counts what runs, too."""
        self._running = running

    def note_end(self, ended: EndedRequest) -> None:
        """Counts a request that ended or was refused. An EndObserver."""
        if isinstance(ended.error, QuotaExceededError):
            self._add(ended.tenant_id, Used(num_refused=1))
            return
        used = Used(
            num_requests=1,
            num_prompt_tokens=ended.num_prompt_tokens,
            num_output_tokens=ended.num_output_tokens,
            engine_s=ended.engine_s,
        )
        kind = type(ended)
        if ended.engine_s > 0:
            self._wholes[kind] = self._wholes.get(kind, Used()) + used
        self._add(ended.tenant_id, self._with_engine_s(used, kind))

    def totals(self) -> dict[str, UsageTotal]:
        """Of every tenant that has used anything."""
        totals = dict(self._ended)
        for tenant_id, used in self._running():
            so_far = self._with_engine_s(used, EndedGeneration)
            totals[tenant_id] = totals.get(tenant_id, Used()) + so_far
            self._since_s.setdefault(tenant_id, self._wall_clock())
        return {
            tenant_id: UsageTotal(used=used, since_s=self._since_s[tenant_id])
            for tenant_id, used in totals.items()
        }

    def of(self, tenant_id: str) -> Used:
        """What one tenant has used."""
        total = self.totals().get(tenant_id)
        return Used() if total is None else total.used

    def energy_joules(self, used: Used) -> float | None:
        """What a use is estimated to have cost; None where the power of the node is unknown."""
        return None if self._power_watts is None else used.engine_s * self._power_watts

    def changed(self) -> dict[str, UsageTotal]:
        """The totals that are not as the last call gave them."""
        totals = self.totals()
        changed = {
            tenant_id: total
            for tenant_id, total in totals.items()
            if self._told.get(tenant_id) != total
        }
        self._told = totals
        return changed

    def _add(self, tenant_id: str, used: Used) -> None:
        self._since_s.setdefault(tenant_id, self._wall_clock())
        self._ended[tenant_id] = self._ended.get(tenant_id, Used()) + used

    def _with_engine_s(self, used: Used, kind: type[EndedRequest]) -> Used:
        whole = self._wholes.get(kind, Used())
        if used.engine_s > 0 or not whole.num_tokens:
            return used
        return used + Used(engine_s=used.num_tokens * whole.engine_s / whole.num_tokens)
