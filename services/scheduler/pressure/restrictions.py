"""What is taken away now, each with the rule and the reading that take it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from services.scheduler.places import PlaceLimits
from services.scheduler.pressure.device import Dimension, PressureLevel
from services.scheduler.request import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why something is restricted."""

    dimension: Dimension
    level: PressureLevel
    reading: float | None
    """In the dimension's unit; None when nothing can be read."""
    sensor: str
    since_s: float
    """Boot clock since which the rule holds."""

    @property
    def rule(self) -> str:
        """Names the rule, for example temperature_elevated."""
        return f"{self.dimension}_{self.level.name.lower()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShares:
    """How much of itself a worker may use, each above 0 to 1."""

    seqs: float = 1.0
    prefill: float = 1.0
    threads: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """All that one rule takes away."""

    cause: Cause
    max_rank: int | None = None
    """Adapters of a higher rank are off."""
    places_share: float = 1.0
    prefill_share: float = 1.0
    threads_share: float = 1.0
    max_lower_running: int | None = None
    """Background and batch requests that may run at once, together."""
    max_output_tokens: int | None = None
    """Of one answer."""
    refused: Set[Priority] = frozenset()
    """Classes of which no new request is taken."""


def merged(parts: Sequence[Restriction]) -> Restriction | None:
    """Returns one restriction that takes away what any of the parts does; None without parts.

    The parts have one cause.
    """
    if len(parts) < 2:
        return parts[0] if parts else None
    return Restriction(
        cause=parts[0].cause,
        max_rank=_least(part.max_rank for part in parts),
        places_share=min(part.places_share for part in parts),
        prefill_share=min(part.prefill_share for part in parts),
        threads_share=min(part.threads_share for part in parts),
        max_lower_running=_least(part.max_lower_running for part in parts),
        max_output_tokens=_least(part.max_output_tokens for part in parts),
        refused=frozenset().union(*(part.refused for part in parts)),
    )


def _least(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restrictions:
    """Everything that holds now: at most one restriction of each dimension."""

    active: tuple[Restriction, ...] = ()

    @property
    def rank_ceiling(self) -> tuple[int, Cause] | None:
        """The highest rank that is served, and why; None when every rank is."""
        ceilings = [(r.max_rank, r.cause) for r in self.active if r.max_rank is not None]
        return min(ceilings, key=lambda ceiling: ceiling[0], default=None)

    @property
    def output_cap(self) -> tuple[int, Cause] | None:
        """Most tokens of an answer, and why; None when the node's own limits hold."""
        caps = [
            (r.max_output_tokens, r.cause) for r in self.active if r.max_output_tokens is not None
        ]
        return min(caps, key=lambda cap: cap[0], default=None)

    @property
    def places(self) -> PlaceLimits:
        """What is left of the places."""
        lower = [r.max_lower_running for r in self.active if r.max_lower_running is not None]
        return PlaceLimits(share=self.run_shares.seqs, max_lower_running=min(lower, default=None))

    @property
    def run_shares(self) -> RunShares:
        """What is left of each worker."""
        return RunShares(
            seqs=min((r.places_share for r in self.active), default=1.0),
            prefill=min((r.prefill_share for r in self.active), default=1.0),
            threads=min((r.threads_share for r in self.active), default=1.0),
        )

    def refusal_of(self, priority: Priority) -> Restriction | None:
        """The restriction that refuses new requests of a class; None when they are taken."""
        return next((r for r in self.active if priority in r.refused), None)
