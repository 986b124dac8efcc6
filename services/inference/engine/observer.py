"""What the engine asks of whoever serves it."""

from __future__ import annotations

from typing import Protocol

from edgelora.errors import EdgeLoraError


class EngineObserver(Protocol):
    """Whoever serves the engine's needs. Called on the event loop."""

    def adapter_wanted(self, digest: str, ticket: object) -> None:
        """Fetch an adapter and answer with `adapter_ready` or `adapter_failed`."""
        ...

    def adapter_refused(self, digest: str, error: EdgeLoraError) -> None:
        """An adapter was fetched but can not be served."""
        ...

    def residency_changed(self) -> None:
        """The set of adapters in the slots is another one."""
        ...

    def engine_died(self) -> None:
        """The thread ended on an error; every stream was cut. The process must be restarted."""
        ...
