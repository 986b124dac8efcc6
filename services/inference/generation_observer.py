"""Whoever wants to know what the generations of a worker do."""

from __future__ import annotations

from typing import Protocol

from services.inference.engine.events import Completed


class GenerationObserver(Protocol):
    """Called on the event loop; must be quick and must not raise."""

    def note_tokens(self, num_tokens: int, since_last_s: float | None) -> None:
        """Tokens went out, so long after the last ones; None: they are the first."""
        ...

    def note_completed(self, completed: Completed) -> None:
        """A generation came to its end."""
        ...
