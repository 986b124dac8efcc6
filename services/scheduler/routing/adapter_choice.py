"""Chooses the adapters of one request from its text, the device and who is resident."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from edgelora.routing import DeviceState
from edgelora.v1.ticket_pb2 import Sealed
from services.scheduler.routing.candidates import Candidate, CandidateCache
from services.scheduler.routing.decision import Reason, RoutingRules, decide
from services.scheduler.routing.router_source import RouterSource

_MAX_INLINE_CHARS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen for one request."""

    adapters: Sequence[tuple[Candidate, float]]
    """With their strengths, largest first; empty: the base model alone."""
    base_share: float
    reason: Reason
    quality_loss: float
    """Expected, in nats a token, for taking a resident adapter; 0 where nothing was given up."""
    num_candidates: int
    """Adapters that were weighed."""
    decision_s: float
    """What all of it took, the store's answer included."""


class AdapterChoice:
    """The router in the path of a request.

    Only what the store lists for the request's own claim is scored: another tenant's adapter never
    reaches the router. The text is in no attribute, log line or error.
    """

    def __init__(
        self,
        source: RouterSource,
        cache: CandidateCache,
        rules: RoutingRules,
        clock: Callable[[], float],
    ) -> None:
        """`clock`: seconds, for `Choice.decision_s`."""
        self._source = source
        self._cache = cache
        self._rules = rules
        self._clock = clock

    async def choose(
        self,
        claim: Sealed,
        tenant_id: str,
        text: str,
        *,
        device: DeviceState,
        max_rank: int | None,
        on_their_way: Callable[[], Set[str]] = frozenset,
    ) -> Choice:
        """Chooses for a text of the tenant that the claim names.

        `max_rank`: adapters that need a higher rank are not to be had; None: all are.
        `on_their_way`: asked last of all for what the tenant's other requests use, which is being
        loaded.

        Raises RouterMissingError, and what the store raised.
        """
        started_s = self._clock()
        router = await self._source.current()
        known, in_slots = await self._cache.current(claim, tenant_id, router, max_rank)
        # Half a millisecond at the most: a thread would cost more than it saves.
        is_short = len(text) <= _MAX_INLINE_CHARS
        vector = router.embed(text) if is_short else await asyncio.to_thread(router.embed, text)
        # Nothing waits from here on: requests that come together see each other's choices.
        held = in_slots | on_their_way()
        is_resident = np.array([each.digest in held for each in known.candidates], np.bool_)
        decision = decide(
            router.scores(vector, known.table, device, np.ones_like(is_resident)),
            router.scores(vector, known.table, device, is_resident),
            is_resident,
            router.temperature,
            self._rules,
        )
        return Choice(
            adapters=[(known.candidates[index], share) for index, share in decision.adapters],
            base_share=decision.base_share,
            reason=decision.reason,
            quality_loss=decision.quality_loss,
            num_candidates=len(known.candidates),
            decision_s=self._clock() - started_s,
        )
