"""Which adapters to bring from their remotes to flash ahead of use. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from services.adapter_store.flash.eviction import EvictionCandidate, is_recent
from services.adapter_store.forecast.budget import Budget
from services.adapter_store.forecast.chances import (
    Chance,
    combine,
    faded,
    is_clearly_above,
    shared_out,
)
from services.adapter_store.forecast.moves import (
    MAX_MOVES,
    Move,
    Stored,
    is_worth_it,
    restore_spending,
)
from services.adapter_store.forecast.settings import TierCosts, WarmUpSettings

_MAX_LOOKS = 256
# Of adapters nobody's habits tell of, such as those of tenants that are switched off.
_CHANCE_UNKNOWN = 0.5
_IDLE_HALF_LIFE_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashShelf:
    """The flash tier."""

    free_bytes: int | None
    """None for no bound."""
    evictable: Sequence[EvictionCandidate]
    """What could come from its package again."""
    min_residency_s: float
    coming: Collection[str] = ()
    """Digests on their way."""


def plan_flash(
    chances: Sequence[Chance],
    shelf: FlashShelf,
    stored: Stored,
    *,
    now_s: float,
    costs: TierCosts,
    settings: WarmUpSettings,
    budget: Budget,
) -> list[Move]:
    """What to bring now, likeliest first. `now_s` is Unix time."""
    overall = combine((chance.digest, _chance(chance)) for chance in chances)
    barred = set(shelf.coming)
    victims = _victims(shelf, overall, now_s)
    free_bytes = math.inf if shelf.free_bytes is None else float(shelf.free_bytes)
    moves: list[Move] = []
    for chance in shared_out(chances, _MAX_LOOKS, _chance):
        if len(moves) >= MAX_MOVES:
            break
        digest, likely = chance.digest, overall[chance.digest]
        adapter = None if digest in barred else stored(chance.tenant_id, digest)
        if adapter is None or adapter.is_on_flash or adapter.package_bytes is None:
            continue
        spending = restore_spending(adapter.package_bytes, costs.restore_s, settings)
        going = _room(adapter.flash_bytes - free_bytes, likely, victims)
        if (
            going is None
            or not is_worth_it(likely, costs.restore_s, spending, settings)
            or not budget.spend(chance.tenant_id, spending)
        ):
            continue
        barred.add(digest)
        free_bytes += sum(copy.size_bytes for _, copy in victims[:going]) - adapter.flash_bytes
        moves.append(
            Move(
                tenant_id=chance.tenant_id,
                digest=digest,
                evict_digests=tuple(copy.digest for _, copy in victims[:going]),
                chance=likely,
                spending=spending,
            )
        )
        del victims[:going]
    return moves


def _chance(chance: Chance) -> float:
    return max(chance.soon, chance.within_a_day)


def _victims(
    shelf: FlashShelf, overall: dict[str, float], now_s: float
) -> list[tuple[float, EvictionCandidate]]:
    """What may go, with its chance, least likely first."""
    victims = [
        (
            overall[copy.digest]
            if copy.digest in overall
            else _CHANCE_UNKNOWN * faded(now_s - copy.last_used_s, _IDLE_HALF_LIFE_S),
            copy,
        )
        for copy in shelf.evictable
        if not copy.is_in_use and not is_recent(now_s - copy.last_used_s, shelf.min_residency_s)
    ]
    return sorted(victims, key=lambda each: (each[0] / max(1, each[1].size_bytes), each[1].digest))


def _room(
    needed_bytes: float, likely: float, victims: Sequence[tuple[float, EvictionCandidate]]
) -> int | None:
    """How many victims have to go; None when those that may are not enough."""
    lost = 0.0
    for going, (chance, copy) in enumerate(victims):
        if needed_bytes <= 0:
            return going
        lost += chance
        if not is_clearly_above(likely, lost) or not is_clearly_above(likely, chance):
            return None
        needed_bytes -= copy.size_bytes
    return len(victims) if needed_bytes <= 0 else None
