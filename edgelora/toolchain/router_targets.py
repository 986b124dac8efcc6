"""What a router should answer: shares of base and adapters, from measured losses. Pure.

A text's losses are nats for each token of its answer, first the base's, then each adapter's. An
adapter may serve a text when it beats the base by `margin` and comes within `tolerance` of the
text's best: one that knows no more than the form of the answer is no substitute for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

LOAD_PRICE = 0.05
"""Nats that an adapter no worker holds is marked down by, on a device at ease."""
PRESSED_LOAD_PRICE = 0.25
"""The same on a critical device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRules:
    """How losses become shares; nats."""

    temperature: float = 0.25
    margin: float = 0.05
    tolerance: float = 0.5


def load_prices(device: Matrix) -> Matrix:
    """What loading an adapter costs; float32 [texts], from the worst dimension of each device.

    `device`: [texts, DEVICE_FEATURES], severity and unknown flag of each dimension. An unknown
    dimension counts as elevated.
    """
    worst = np.maximum(device[:, ::2], 0.5 * device[:, 1::2]).max(1)
    return np.asarray(LOAD_PRICE + (PRESSED_LOAD_PRICE - LOAD_PRICE) * worst, np.float32)


def eligible(losses: Matrix, rules: TargetRules) -> NDArray[np.bool_]:
    """Which adapters may serve each text: bool [texts, adapters]."""
    base, adapters = losses[:, :1], losses[:, 1:]
    best = losses.min(1, keepdims=True)
    good: NDArray[np.bool_] = (adapters <= base - rules.margin) & (
        adapters <= best + rules.tolerance
    )
    return good


def shares(losses: Matrix, prices: Matrix, rules: TargetRules) -> Matrix:
    """Softmax of -(loss + price) / temperature over the base and the adapters that may serve.

    `losses`: [texts, 1 + adapters]; `prices`: [texts, adapters], infinite for an adapter that is
    not there. A text that no adapter may serve is the base's alone. float32 [texts, 1 + adapters].
    """
    costs = np.where(eligible(losses, rules), losses[:, 1:] + prices, np.inf)
    every = np.concatenate([losses[:, :1], costs], axis=1)
    every -= every.min(1, keepdims=True)
    powers = np.exp(-every / rules.temperature)
    return np.asarray(powers / powers.sum(1, keepdims=True), np.float32)


def fill_unmeasured(losses: Matrix, domains: NDArray[np.int64]) -> Matrix:
    """Gives each text without losses (NaN) the mean of the measured ones of its domain.

    Raises ValueError when a domain has none.
    """
    filled = losses.copy()
    for domain in np.unique(domains):
        here = domains == domain
        known = here & ~np.isnan(losses[:, 0])
        if not known.any():
            raise ValueError(f"no text of domain {domain} is measured")
        filled[here & ~known] = losses[known].mean(0)
    return filled
