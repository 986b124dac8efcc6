"""What an engine with adapter slots is to those that fill the slots and report them.

Two engines are: the decoder's and the encoder's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from edgelora.errors import EdgeLoraError
from edgelora.v1.ticket_pb2 import Sealed
from services.inference.engine.status import SlotStatus

FetchedT = TypeVar("FetchedT")
FetchedT_co = TypeVar("FetchedT_co", covariant=True)
FetchedT_contra = TypeVar("FetchedT_contra", contravariant=True)


class SlotsStatus(Protocol):
    """What is in the slots."""

    @property
    def slots(self) -> Sequence[SlotStatus]:
        """Those that are not empty."""
        ...

    @property
    def num_adapter_slots(self) -> int:
        """All slots."""
        ...

    @property
    def num_slot_waits(self) -> int:
        """Requests that had to wait for a slot, since the start."""
        ...

    @property
    def adapter_bytes(self) -> int:
        """Bytes of the adapters in slots."""
        ...

    @property
    def adapter_budget_bytes(self) -> int:
        """The most they may have."""
        ...


class SlotEngine(Protocol[FetchedT_contra]):
    """Takes adapters in the form they were fetched in. See services/inference/engine/engine.py."""

    @property
    def status(self) -> SlotsStatus:
        """The newest snapshot. Raises ServiceUnavailableError before the model is loaded."""
        ...

    def adapter_ready(self, digest: str, fetched: FetchedT_contra) -> None:
        """Answers `adapter_wanted`."""
        ...

    def adapter_failed(self, digest: str, ticket: object, error: EdgeLoraError) -> None:
        """Answers `adapter_wanted` when the adapter could not be had with that ticket."""
        ...

    def warm_up(self, digest: str, evict_digest: str | None, fetched: FetchedT_contra) -> None:
        """Has an adapter put into a slot ahead of use, if there is one that nobody needs."""
        ...


class ReportedEngine(Protocol):
    """Tells what is in its slots, and is told what the store knows of them."""

    @property
    def status(self) -> SlotsStatus:
        """The newest snapshot. Raises ServiceUnavailableError before the model is loaded."""
        ...

    def set_deleted(self, digests: frozenset[str]) -> None:
        """Says which adapters are gone from the registry: they leave their slots when unused."""
        ...

    def set_pinned(self, digests: frozenset[str]) -> None:
        """Says which adapters leave their slots last."""
        ...


class SteppingEngine(Protocol):
    """Runs steps."""

    def stalled_s(self) -> float:
        """Seconds since the newest step while there is work to do, else 0."""
        ...


class AdapterFetcher(Protocol[FetchedT_co]):
    """Fetches adapters from the store. See services/inference/adapter_source.py."""

    async def fetch(self, digest: str, ticket: Sealed, *, is_urgent: bool = False) -> FetchedT_co:
        """Returns an adapter, verified against its digest and the base model."""
        ...
