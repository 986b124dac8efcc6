"""Which adapters a worker should load from flash ahead of use. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

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
    load_spending,
)
from services.adapter_store.forecast.settings import TierCosts, WarmUpSettings
from services.adapter_store.residency import SlotReport

# Whoever used an adapter a moment ago goes on talking to it.
_CHANCE_IN_USE = 0.8
_IDLE_HALF_LIFE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSlots:
    """One worker's slots."""

    num_slots: int
    slots: Sequence[SlotReport]
    kept: Collection[str]
    """Digests that must not go: pinned ones."""
    elsewhere: Collection[str]
    """Digests that must not come: refused here, in another worker's slot, or on their way."""


def plan_memory(
    chances: Sequence[Chance],
    worker: WorkerSlots,
    stored: Stored,
    *,
    now_s: float,
    costs: TierCosts,
    settings: WarmUpSettings,
    budget: Budget,
) -> list[Move]:
    """What the worker should load now, likeliest first. `now_s` is the boot clock."""
    overall = combine((chance.digest, chance.soon) for chance in chances)
    barred = {slot.digest for slot in worker.slots}.union(worker.elsewhere)
    victims = _victims(worker, overall, now_s)
    num_free = worker.num_slots - len(worker.slots)
    moves: list[Move] = []
    for chance in shared_out(chances, worker.num_slots, lambda each: each.soon):
        if len(moves) >= MAX_MOVES:
            break
        digest, likely = chance.digest, overall[chance.digest]
        needs_room = num_free <= 0
        if digest in barred or (
            needs_room and not (victims and is_clearly_above(likely, victims[0][0]))
        ):
            continue
        adapter = stored(chance.tenant_id, digest)
        if adapter is None or not adapter.is_on_flash:
            continue
        spending = load_spending(adapter, costs.load_s, settings)
        if not is_worth_it(likely, costs.load_s, spending, settings) or not budget.spend(
            chance.tenant_id, spending
        ):
            continue
        barred.add(digest)
        num_free -= 1
        moves.append(
            Move(
                tenant_id=chance.tenant_id,
                digest=digest,
                evict_digests=(victims.pop(0)[1],) if needs_room else (),
                chance=likely,
                spending=spending,
            )
        )
    return moves


def _victims(
    worker: WorkerSlots, overall: dict[str, float], now_s: float
) -> list[tuple[float, str]]:
    """What may go, with its chance, least likely first."""
    return sorted(
        (
            max(
                overall.get(slot.digest, 0.0),
                _CHANCE_IN_USE * faded(now_s - slot.last_used_s, _IDLE_HALF_LIFE_S),
            ),
            slot.digest,
        )
        for slot in worker.slots
        if not slot.num_references and not slot.is_loading and slot.digest not in worker.kept
    )
