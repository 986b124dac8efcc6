"""One request inside the engine, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.head import ClassifierHead
from services.inference.engine.sequence import AdapterUse, Priority


@dataclass(slots=True, kw_only=True, eq=False)
class Encoding:
    """Texts of one tenant that share their adapters, from arrival to end."""

    encoding_id: int
    """Grows in order of arrival."""
    texts: tuple[NDArray[np.int32], ...]
    """Token ids of each, special tokens included."""
    adapters: tuple[AdapterUse, ...]
    """Different digests. A weight of 0 leaves the base model as it is."""
    wants_head: bool
    """Whether the classifier of its one adapter is wanted, and the vectors it works on."""
    priority: Priority
    tenant_id: str
    ticket: object
    arrived_s: float

    slots: tuple[int, ...] | None = None
    """Of its adapters, in their order, while it holds references on them."""
    admitted_s: float = 0.0
    ready_s: float | None = None
    """When all its adapters were there first."""
    unserved_since_s: float = 0.0
    """When it arrived, or a step had a text of it last."""
    has_waited_for_slot: bool = False
    num_started: int = 0
    """Texts that went into a step."""
    last_turn: int = 0
    """Grows with every text that is taken; whoever was served longest ago is next."""
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    """Of the texts that have run, in order."""
    queue_s: float = 0.0
    """From arrival to its first step, the loading of adapters left out."""
    engine_s: float = 0.0
    num_steps: int = 0

    @property
    def load_s(self) -> float:
        """How long it waited for adapters to be fetched and written."""
        return 0.0 if self.ready_s is None else self.ready_s - self.admitted_s

    @property
    def digests(self) -> tuple[str, ...]:
        """Of its adapters."""
        return tuple(use.digest for use in self.adapters)

    @property
    def is_started(self) -> bool:
        """Whether all its texts have gone into a step."""
        return self.num_started == len(self.texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """What a request gave. Times are seconds."""

    vectors: tuple[NDArray[np.float32], ...]
    """Pooled, one a text, not normalised."""
    head: ClassifierHead | None
    """Of its adapter, where it was wanted."""
    num_tokens: int
    queue_s: float
    """From arrival to the first step, the loading of adapters left out."""
    adapter_load_s: float
    engine_s: float
    """Its share of the time of the steps it was in."""
    num_steps: int
