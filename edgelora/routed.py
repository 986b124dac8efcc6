"""What the node's router chose for a request that left the choice to it, as plain typed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgelora.v1 import routing_pb2 as pb

RoutingReason = Literal["best", "resident", "base"]
"""The likeliest adapters; one in memory that is nearly as good; the base model."""

_REASONS: dict[int, RoutingReason] = {
    pb.ROUTING_REASON_BEST: "best",
    pb.ROUTING_REASON_RESIDENT: "resident",
    pb.ROUTING_REASON_BASE: "base",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedAdapter:
    """One adapter of the choice."""

    digest: str
    alias: str
    """Empty when it has none."""
    share: float
    """0 to 1; the strength it is served with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The router's choice."""

    adapters: tuple[RoutedAdapter, ...]
    """Largest share first; empty: the base model."""
    base_share: float
    """Of the base model; all shares sum to 1."""
    reason: RoutingReason
    decision_s: float
    """Seconds the choice took."""
    num_candidates: int
    """Adapters of the tenant that were weighed."""


def from_message(message: pb.Routing) -> Routing:
    """The typed form of the wire's."""
    return Routing(
        adapters=tuple(
            RoutedAdapter(digest=entry.digest, alias=entry.alias, share=entry.share)
            for entry in message.adapters
        ),
        base_share=message.base_share,
        reason=_REASONS.get(message.reason, "best"),
        decision_s=message.decision_time.ToNanoseconds() / 1e9,
        num_candidates=message.num_candidates,
    )
