"""How likely adapters are to be wanted, and how tenants share what there is. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

MARGIN = 0.05
RATIO = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """How likely one of a tenant's adapters is to be wanted."""

    tenant_id: str
    digest: str
    soon: float
    """As the next adapter of one of its users, within the horizon."""
    within_a_day: float


def combine(chances: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Digest -> chance that any of those who may want it does."""
    missed: dict[str, float] = {}
    for digest, chance in chances:
        missed[digest] = missed.get(digest, 1.0) * (1.0 - chance)
    return {digest: 1.0 - miss for digest, miss in missed.items()}


def is_clearly_above(chance: float, other: float) -> bool:
    """Whether one may take the other's place: by a margin, so that they do not swap to and fro."""
    return chance >= RATIO * other + MARGIN


def faded(idle_s: float, half_life_s: float) -> float:
    """1 for what was used now, 1/2 after the half-life; a clock set back makes nothing older."""
    return math.exp2(-max(0.0, idle_s) / half_life_s)


def shared_out(
    chances: Sequence[Chance], num_places: int, value: Callable[[Chance], float]
) -> list[Chance]:
    """The chances that get one of the places, best first.

    Each tenant first has an equal part of them for its best; what is left goes to the best of all.
    However likely a tenant makes its adapters look, it can not take another's part.
    """
    ranked = sorted(chances, key=lambda each: (-value(each), each.digest, each.tenant_id))
    num_tenants = len({chance.tenant_id for chance in chances})
    part = max(1, num_places // max(1, num_tenants))
    taken: dict[str, int] = {}
    own: list[Chance] = []
    rest: list[Chance] = []
    for chance in ranked:
        taken[chance.tenant_id] = taken.get(chance.tenant_id, 0) + 1
        (own if taken[chance.tenant_id] <= part else rest).append(chance)
    placed = own[:num_places]
    placed += rest[: num_places - len(placed)]
    return sorted(placed, key=lambda each: (-value(each), each.digest, each.tenant_id))
