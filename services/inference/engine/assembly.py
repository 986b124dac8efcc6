"""Puts the inside of an engine together around a back end, which loads its model for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from services.chassis.base_model import BaseModel
from services.inference.backends.base import Backend
from services.inference.engine.adapter_loader import AdapterLoader
from services.inference.engine.adapter_slots import AdapterSlots
from services.inference.engine.config import EngineConfig
from services.inference.engine.effect_check import EffectCheck
from services.inference.engine.iteration_scheduler import IterationScheduler
from services.inference.engine.kv_blocks import KvBlockPool
from services.inference.engine.prefix_cache import PrefixCache
from services.inference.engine.sessions import Sessions
from services.inference.engine.shares import Shares, adapter_parameters, base_parameters
from services.inference.engine.step_loop import StepLoop


def build_step_loop(
    backend: Backend,
    config: EngineConfig,
    make_loader: Callable[[], AdapterLoader],
    clock: Callable[[], float],
) -> tuple[StepLoop, AdapterSlots]:
    """Loads the model first. Raises what that raises, and SlotBudgetError."""
    model = backend.load_model(config.model_directory, config.limits)
    num_blocks = config.num_sequence_blocks
    canary_table = list(range(num_blocks, config.limits.num_kv_blocks))
    blocks = KvBlockPool(num_blocks, config.limits.block_size)
    num_slots = config.limits.max_loras
    slots = AdapterSlots(
        num_slots,
        slot_bytes=backend.telemetry().adapter_slots_bytes // num_slots,
        budget_bytes=config.adapter_budget_bytes,
        min_residency_s=config.min_residency_s,
    )
    scheduler = IterationScheduler(
        config.step,
        blocks,
        slots,
        PrefixCache(blocks, model.digest, is_enabled=config.prefix_caching),
        Sessions(blocks, config.sessions),
    )
    steps = StepLoop(
        backend,
        scheduler,
        make_loader(),
        EffectCheck(config.canary_token_ids, canary_table, config.limits.max_step_tokens),
        Shares(
            base_parameters(model),
            partial(_parameters_of, model, config.limits.max_lora_rank, slots),
        ),
        clock,
    )
    return steps, slots


def _parameters_of(model: BaseModel, max_rank: int, slots: AdapterSlots, digest: str) -> int:
    # In proportion to the largest adapter there can be, whatever the back end keeps of it.
    slot = slots.find(digest)
    size = 0.0 if slot is None else slot.size_bytes / slots.slot_bytes
    return int(size * adapter_parameters(model, max_rank))
