"""What the encoder's inside has to tell the outside after a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgelora.errors import EdgeLoraError
from services.inference.encoder.encoding import Encoded
from services.inference.engine.adapter_slots import Eviction
from services.inference.engine.fetched_adapter import FinishedLoad
from services.inference.engine.outbox import WantedAdapter


@dataclass(slots=True)
class EncoderOutbox:
    """What the outside has to learn, in order."""

    ends: list[tuple[int, Encoded | EdgeLoraError]] = field(default_factory=list)
    """(encoding id, how it ended)."""
    wanted: list[WantedAdapter] = field(default_factory=list)
    refused: list[tuple[str, EdgeLoraError]] = field(default_factory=list)
    """Adapters whose weights came but can not be served."""
    loads: list[FinishedLoad] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    is_residency_changed: bool = False
    """Always with a load, a refusal or an eviction."""

    def __bool__(self) -> bool:
        return bool(self.ends or self.wanted or self.refused or self.is_residency_changed)
