"""What the engine asks of whoever serves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edgelora.errors import EdgeLoraError
from services.inference.engine.adapter_slots import Eviction
from services.inference.engine.fetched_adapter import FinishedLoad


class EngineObserver(Protocol):
    """Whoever serves the engine's needs. Called on the event loop."""

    def adapter_wanted(self, digest: str, ticket: object) -> None:
        """Fetch an adapter and answer with `adapter_ready` or `adapter_failed`."""
        ...

    def adapter_refused(self, digest: str, error: EdgeLoraError) -> None:
        """An adapter was fetched but can not be served."""
        ...

    def residency_changed(
        self, loads: Sequence[FinishedLoad], evictions: Sequence[Eviction]
    ) -> None:
        """What is in the slots, or on its way, is another; and what came and left since then."""
        ...

    def engine_died(self) -> None:
        """The thread ended on an error; every stream was cut. The process must be restarted."""
        ...
