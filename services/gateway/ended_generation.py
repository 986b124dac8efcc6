"""What is known of a generation once it has ended, or was refused before it began."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.gateway.ended_request import EndedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedGeneration(EndedRequest):
    """One end. Nothing the user typed is in it."""

    time_to_first_token_s: float | None
    """From acceptance to the first token, None before it."""
    degradations: tuple[str, ...]
    """Steps and their rules."""

    @property
    def time_per_output_token_s(self) -> float | None:
        """Mean time of the tokens after the first (TPOT); None for fewer than two."""
        if self.time_to_first_token_s is None or self.num_output_tokens < 2:
            return None
        return (self.total_s - self.time_to_first_token_s) / (self.num_output_tokens - 1)


EndObserver = Callable[[EndedGeneration], None]
"""Called on the event loop, once for each end; must be quick and must not raise."""
