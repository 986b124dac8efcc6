"""What the encoder's engine is given to fill a slot with."""

from __future__ import annotations

from dataclasses import dataclass

from edgelora.adapter_format.head import ClassifierHead
from edgelora.adapter_format.weights import AdapterWeights
from services.inference.engine.fetched_adapter import FetchCost


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedEncoderAdapter:
    """An adapter on its way into a slot, its bytes checked."""

    weights: AdapterWeights
    """Without any pair where it is nothing but a classifier."""
    head: ClassifierHead | None
    cost: FetchCost
