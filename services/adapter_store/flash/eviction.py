"""Which adapters leave flash when it is full: the least recently used of those that may. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionCandidate:
    """A content on flash that could come from its package again."""

    digest: str
    size_bytes: int
    """What its eviction frees."""
    last_used_s: float
    is_in_use: bool
    """Used by a worker, or kept for one."""


def choose_evictions(
    candidates: Iterable[EvictionCandidate],
    excess_bytes: int,
    *,
    now_s: float,
    min_residency_s: float,
) -> list[str] | None:
    """Digests whose eviction frees `excess_bytes`, in the order of the candidates.

    Takes no more candidates than it needs, so they come least recently used first. What is in use,
    or was used less than `min_residency_s` ago, stays. None when all that may go is not enough:
    then nothing should.
    """
    chosen: list[str] = []
    for candidate in candidates:
        if candidate.is_in_use or is_recent(now_s - candidate.last_used_s, min_residency_s):
            continue
        chosen.append(candidate.digest)
        excess_bytes -= candidate.size_bytes
        if excess_bytes <= 0:
            return chosen
    return None


def is_recent(age_s: float, min_residency_s: float) -> bool:
    """Whether something was used a short while ago.

    A clock that was set back far makes an age negative for as long: then nothing is known of it,
    and flash must not stay full until the clock comes round.
    """
    return abs(age_s) < min_residency_s
