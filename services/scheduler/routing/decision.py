"""What scores lead to: the base model, a mix of adapters, or one that is resident. Pure.

The router gives every candidate and the base model a logit; their softmax are the shares. The
expected loss of quality of taking candidate r for the best candidate b is

    1 - share[r] / share[b] = 1 - exp(logit[r] - logit[b])

the part of b's share that r lacks: 0 for an equal, towards 1 for a stranger, and the same however
many other candidates share the rest.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


class Reason(enum.Enum):
    """How a choice came about. The names are those of the RoutingReason proto."""

    BEST = enum.auto()
    RESIDENT = enum.auto()
    BASE = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRules:
    """The bounds of a decision, shares from 0 to 1."""

    top_k: int
    """Most adapters of a mix, at least 1."""
    min_share: float
    """The best adapter needs this share of all, else the base model serves."""
    min_mix_share: float
    """What is below this share of a mix is left out of it, the base model too."""
    max_quality_loss: float
    """A resident adapter is taken for a better one below this expected loss; 0: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which candidates serve, and with what strength."""

    adapters: Sequence[tuple[int, float]]
    """(candidate, share), largest share first; empty: the base model alone."""
    base_share: float
    """With the shares of the adapters it is 1."""
    reason: Reason
    quality_loss: float
    """What was given up for residency, by the formula above; 0 where nothing was."""


_BASE = Decision(adapters=(), base_share=1.0, reason=Reason.BASE, quality_loss=0.0)


def decide(
    logits: NDArray[np.floating], is_resident: Sequence[bool], rules: RoutingRules
) -> Decision:
    """Chooses among candidates, logits[:-1], and the base model, logits[-1].

    is_resident has one entry a candidate. Of equal candidates the first wins, of equal shares the
    base model; it also serves when a logit is not a finite number.
    """
    num_candidates = len(logits) - 1
    if num_candidates == 0 or not np.isfinite(logits).all():
        return _BASE
    shares = softmax(logits)
    order = sorted(range(num_candidates), key=lambda candidate: -shares[candidate])
    best = order[0]
    if shares[best] <= shares[-1] or shares[best] < rules.min_share:
        return _BASE
    adapters, base_share = _mix(shares, order[: rules.top_k], rules.min_mix_share)
    if all(is_resident[candidate] for candidate, _ in adapters):
        return _decision(adapters, base_share, Reason.BEST)
    nearest = next((candidate for candidate in order if is_resident[candidate]), None)
    if nearest is not None and shares[nearest] > shares[-1]:
        quality_loss = 1.0 - float(shares[nearest] / shares[best])
        if quality_loss < rules.max_quality_loss:
            adapters, base_share = _mix(shares, [nearest], rules.min_mix_share)
            return _decision(adapters, base_share, Reason.RESIDENT, quality_loss)
    return _decision(adapters, base_share, Reason.BEST)


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Returns exp(logits) over their sum, in float64."""
    wide = logits.astype(np.float64)
    powers = np.exp(wide - wide.max())
    return np.asarray(powers / powers.sum())


def _mix(
    shares: NDArray[np.float64], chosen: Sequence[int], min_share: float
) -> tuple[list[tuple[int, float]], float]:
    """Shares of the chosen candidates and the base model, as parts of 1; the first always stays."""
    total = float(shares[chosen].sum() + shares[-1])
    kept = [each for each in chosen if each == chosen[0] or shares[each] / total >= min_share]
    base = float(shares[-1]) if shares[-1] / total >= min_share else 0.0
    total = float(shares[kept].sum()) + base
    return [(each, float(shares[each]) / total) for each in kept], base / total


def _decision(
    adapters: Sequence[tuple[int, float]],
    base_share: float,
    reason: Reason,
    quality_loss: float = 0.0,
) -> Decision:
    return Decision(
        adapters=tuple(adapters), base_share=base_share, reason=reason, quality_loss=quality_loss
    )
