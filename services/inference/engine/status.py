"""What the engine shows of itself, replaced as a whole after every step."""

from __future__ import annotations

from dataclasses import dataclass

from services.inference.backends.base import BackendTelemetry
from services.inference.engine.run_limits import RunLimits
from services.inference.engine.shares import AdapterShare


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """One slot that is not empty."""

    digest: str
    num_references: int
    last_used_s: float
    is_loading: bool
    size_bytes: int
    """Held; or kept for it while it loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """Counts since the start, and what is held now."""

    num_running: int
    num_waiting: int
    num_kv_blocks: int
    num_free_kv_blocks: int
    """Blocks neither a sequence nor a session holds; cached ones among them."""
    num_cached_kv_blocks: int
    """Blocks that a prompt of the same tenant may be found in, held or not."""
    num_adapter_slots: int
    num_adapter_references: int
    num_slot_waits: int
    """Sequences that had to wait for an adapter slot."""
    adapter_budget_bytes: int
    """Most bytes of adapters in slots."""
    num_steps: int
    num_output_tokens: int
    num_preemptions: int
    num_recomputed_tokens: int
    """Run again after a preemption, their keys and values being gone."""
    num_failed_rows: int
    num_prefix_lookup_tokens: int
    """Prompt tokens looked for in the cached blocks."""
    num_prefix_hit_tokens: int
    """Those found, which were not computed again."""
    limits: RunLimits
    """In force now."""
    num_sessions: int
    """Conversations whose blocks are held for their next request."""
    num_session_tokens: int
    step_s: float
    """Time of all steps; the sum of the shares."""
    shares: tuple[AdapterShare, ...]
    last_step_s: float
    """Engine clock when the newest step ended."""
    slots: tuple[SlotStatus, ...]
    memory: BackendTelemetry

    @property
    def adapter_bytes(self) -> int:
        """Bytes of the adapters in slots."""
        return sum(slot.size_bytes for slot in self.slots)

    @property
    def num_resident_adapters(self) -> int:
        """Adapters whose weights are in a slot."""
        return sum(not slot.is_loading for slot in self.slots)

    @property
    def num_loading_adapters(self) -> int:
        """Adapters on their way into a slot."""
        return sum(slot.is_loading for slot in self.slots)
