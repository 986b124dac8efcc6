"""How many bits each factor of each component gets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.codec.layout import COMPONENT, MAX_BITS
from edgelora.adapter_format.codec.tables import TABLES

_EIGHT_BITS = 0.00007
"""Mean squared error of normal values in even levels up to the largest of a run; measured."""
DISTORTION = (1.0, *(TABLES[bits].distortion for bits in range(1, MAX_BITS)), _EIGHT_BITS)
"""Mean squared error of normal values of unit variance after 0 to 8 bits."""
_CHOICES = np.array(
    [(0, 0)] + [(a, b) for a in range(1, MAX_BITS + 1) for b in range(1, MAX_BITS + 1)]
)
_STEPS = 48


def allocate(
    energies: NDArray[np.float64],
    num_in: NDArray[np.int64],
    num_out: NDArray[np.int64],
    required: NDArray[np.bool_],
    budget: float,
) -> NDArray[np.int64]:
    """Returns the bits of A and B of each component, [components, 2]; 0, 0 for one to drop.

    Minimises the summed squared error for `budget` bits, their records included. `energies`: the
    squared singular values; `num_in`, `num_out`: values in each factor; `required`: components to
    keep even where that breaks the budget.

    The multiplier of Lagrange's method is found by bisection (Shoham and Gersho, "Efficient bit
    allocation for an arbitrary set of quantizers", IEEE Trans. ASSP 36 (1988)).
    """
    loss = np.array(DISTORTION)
    # Of a product whose two factors were quantised, when its scale is the best there is.
    errors = 1 - (1 - loss[_CHOICES[:, 0]]) * (1 - loss[_CHOICES[:, 1]])
    costs = np.outer(num_in, _CHOICES[:, 0]) + np.outer(num_out, _CHOICES[:, 1])
    costs = costs + np.where(_CHOICES[:, 0] > 0, 8 * COMPONENT.itemsize, 0)
    distortions = energies[:, np.newaxis] * errors
    distortions[required, 0] = np.inf
    rows = np.arange(len(energies))
    # At this price of a bit everything but the required is dropped, at the one of 0 nothing is.
    low, high = 0.0, float(energies.max())
    for _ in range(_STEPS):
        price = (low + high) / 2 if low == 0 else np.sqrt(low * high)
        chosen = (distortions + price * costs).argmin(axis=1)
        if costs[rows, chosen].sum() > budget:
            low = price
        else:
            high = price
    chosen = (distortions + high * costs).argmin(axis=1)
    bits: NDArray[np.int64] = _CHOICES[chosen]
    return bits
