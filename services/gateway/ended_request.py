"""What is known of any request once it has ended, or was refused before it began."""

from __future__ import annotations

from dataclasses import dataclass

from edgelora.error_tree import EdgeLoraError


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRequest:
    """One end. Nothing the user typed is in it."""

    tenant_id: str
    priority: int
    """A PriorityClass."""
    adapter_digests: tuple[str, ...]
    """As resolved; empty for the base model, and for what ended before it was queued."""
    queue_s: float | None
    """From acceptance to the ticket, None before it."""
    total_s: float
    num_prompt_tokens: int
    """Of the texts, where they were encoded."""
    num_output_tokens: int
    engine_s: float
    """Its share of the time the engine's steps took."""
    error: EdgeLoraError | None
    """None for a whole answer; CancelledRequestError where the client left."""
