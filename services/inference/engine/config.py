"""The sizes and the model an engine is built with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from services.inference.backends.base import BackendLimits
from services.inference.engine.iteration_scheduler import StepLimits
from services.inference.engine.sessions import SessionLimits
from services.inference.engine.token_bytes import TokenBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Everything the engine is built with."""

    model_directory: Path
    limits: BackendLimits
    """`num_kv_blocks` includes the few blocks of the canary."""
    step: StepLimits
    token_bytes: TokenBytes
    eos_token_ids: frozenset[int]
    canary_token_ids: tuple[int, ...]
    """The prompt every adapter is tried with."""
    adapter_budget_bytes: int | None = None
    """Most bytes of adapters in slots; None for all slots full."""
    min_residency_s: float = 0.0
    """How long an adapter that has served nobody yet stays, while another slot is busy."""
    prefix_caching: bool = True
    """Whether a tenant's requests share the KV blocks of what their prompts begin with alike."""
    sessions: SessionLimits = field(default_factory=SessionLimits)

    @property
    def num_canary_blocks(self) -> int:
        """KV blocks the canary takes."""
        return -(-len(self.canary_token_ids) // self.limits.block_size)

    @property
    def num_sequence_blocks(self) -> int:
        """KV blocks for requests."""
        return self.limits.num_kv_blocks - self.num_canary_blocks

    @property
    def capacity_tokens(self) -> int:
        """Most tokens one sequence can hold, whatever the model's context."""
        return self.num_sequence_blocks * self.limits.block_size
