"""What is known of a generation once it has ended, or was refused before it began."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgelora.error_tree import EdgeLoraError


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedGeneration:
    """One end. Nothing the user typed is in it."""

    tenant_id: str
    priority: int
    """A PriorityClass."""
    adapter_digests: tuple[str, ...]
    """As resolved; empty for the base model, and for what ended before it was queued."""
    queue_s: float | None
    """From acceptance to the ticket, None before it."""
    time_to_first_token_s: float | None
    """From acceptance to the first token, None before it."""
    total_s: float
    num_prompt_tokens: int
    num_output_tokens: int
    engine_s: float
    """Its share of the time the engine's steps took."""
    degradations: tuple[str, ...]
    """Steps and their rules."""
    error: EdgeLoraError | None
    """None for a whole answer; CancelledRequestError where the client left."""

    @property
    def time_per_output_token_s(self) -> float | None:
        """Mean time of the tokens after the first (TPOT); None for fewer than two."""
        if self.time_to_first_token_s is None or self.num_output_tokens < 2:
            return None
        return (self.total_s - self.time_to_first_token_s) / (self.num_output_tokens - 1)


EndObserver = Callable[[EndedGeneration], None]
"""Called on the event loop, once for each end; must be quick and must not raise."""
