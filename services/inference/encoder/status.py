"""What the encoder's engine shows of itself, replaced as a whole after every step."""

from __future__ import annotations

from dataclasses import dataclass

from services.inference.engine.shares import AdapterShare
from services.inference.engine.status import SlotStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderStatus:
    """Counts since the start, and what is held now. Implements `slot_engine.SlotsStatus`."""

    num_requests: int
    """That have not ended."""
    num_adapter_slots: int
    num_slot_waits: int
    adapter_budget_bytes: int
    num_steps: int
    num_texts: int
    """That have run."""
    num_tokens: int
    num_failed_texts: int
    step_s: float
    """Time of all steps; the sum of the shares."""
    shares: tuple[AdapterShare, ...]
    last_step_s: float
    """Engine clock when the newest step ended."""
    slots: tuple[SlotStatus, ...]
    weights_bytes: int
    adapter_slots_bytes: int

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
