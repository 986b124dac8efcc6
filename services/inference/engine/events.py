"""What the engine tells about one generation, in this order: admitted, deltas, completed.

Figures of work may come at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgelora.errors import EdgeLoraError
from services.inference.engine.sequence import FinishReason, SampledToken


@dataclass(frozen=True, slots=True)
class Admitted:
    """The first piece of the prompt runs now."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of output, and the tokens it stands for."""

    text: str
    tokens: tuple[SampledToken, ...]
    engine_s: float = 0.0
    """The generation's share of the time of the steps so far."""


@dataclass(frozen=True, slots=True)
class Worked:
    """What the generation has cost so far, where nothing else told it."""

    engine_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The generation ended by itself. Times are seconds since its arrival."""

    finish_reason: FinishReason
    stop_string: str | None
    num_prompt_tokens: int
    num_cached_prompt_tokens: int
    """Prompt tokens whose keys and values an earlier request of the tenant had left."""
    num_output_tokens: int
    """Tokens sampled, an end token included."""
    queue_s: float
    """Waiting for a seat and KV blocks; without the adapters' loading."""
    adapter_load_s: float
    first_token_s: float
    total_s: float
    mean_batch_size: float
    num_preemptions: int
    engine_s: float
    """Its share of the time of the steps it was in."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The generation was cut."""

    error: EdgeLoraError


Event = Admitted | TextDelta | Worked | Completed | Failed
