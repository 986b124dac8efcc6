"""head.json: what makes a classifier of an encoder's adapter, beside the weights of its last layer.

    {"labels": ["balance", "transfer"], "pooling": "mean", "normalise": true,
     "out_of_scope": {"label": null, "score": "max_probability", "threshold": 0.35}}

The last layer itself is in adapter_model.safetensors, as PEFT saves it for sequence classification.
What is written here decides what the adapter answers, and is part of its digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FILE = "head.json"
Pooling = Literal["mean", "cls", "pooler"]
ScopeScore = Literal["max_probability", "energy"]
"""How sure a classifier is of a text: its largest probability, or the logarithm of the sum of the
exponentials of its logits (Liu et al., arXiv 2010.03759)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRule:
    """When a text belongs to none of the labels: any of the two conditions that are set."""

    label: str | None
    """It is out of scope when this is the likeliest label."""
    score: ScopeScore | None
    threshold: float | None
    """It is out of scope when the score is below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierHead:
    """A linear layer over a text's pooled vector, and what its outputs mean."""

    labels: tuple[str, ...]
    """At least 2, all different."""
    pooling: Pooling
    normalise: bool
    """Whether the pooled vector is scaled to length 1 first."""
    out_of_scope: ScopeRule | None
    weight: NDArray[np.float32]
    """Shape [labels, hidden_size]."""
    bias: NDArray[np.float32]
    """Shape [labels]."""
