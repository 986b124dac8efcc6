"""What the engine is given to fill a slot with, and what it tells of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.inference.backends.base import LoadableAdapter


@dataclass(frozen=True, slots=True)
class CanaryReference:
    """The likeliest tokens after the canary prompt, as measured at registration."""

    token_ids: NDArray[np.intp]
    logits: NDArray[np.float32]
    """One for each token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchCost:
    """What bringing an adapter took."""

    bytes_read: int = 0
    remote_s: float = 0.0
    """Seconds from its remote to flash."""
    fetch_s: float = 0.0
    """Seconds asking the store, and mapping or receiving what it named."""
    check_s: float = 0.0
    """Seconds checking hashes, and parsing what is not encoded."""


@dataclass(frozen=True, slots=True)
class FetchedAdapter:
    """An adapter on its way into a slot, its bytes checked."""

    adapter: LoadableAdapter
    reference: CanaryReference | None = None
    """None: it was not measured."""
    cost: FetchCost = FetchCost()
    form: str = ""
    """Tells the serving forms of a digest apart: the hash of an encoded file, empty for the
    original. Registering again may change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLoad:
    """An adapter that was written into a slot and proven."""

    digest: str
    is_warm_up: bool
    """Nobody had asked for it when it was done."""
    cost: FetchCost
    decode_s: float
    prove_s: float
