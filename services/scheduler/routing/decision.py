"""What scores lead to: the base model, a mix of adapters, or one that is resident. Pure.

A difference of 1 between two scores stands for `temperature` nats of loss a token, so the expected
loss of quality of serving candidate r in the place of the best candidate b is

    temperature * (score[b] - score[r])    nats a token

whatever else there is to choose from. The shares are the softmax of the scores.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class Reason(enum.Enum):
    """How a choice came about. The names are those of the RoutingReason proto."""

    BEST = enum.auto()
    RESIDENT = enum.auto()
    BASE = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRules:
    """The bounds of a decision."""

    top_k: int
    """Most adapters of a mix, at least 1."""
    min_share: float
    """The best adapter needs this share, 0 to 1, else the base model serves."""
    min_mix_share: float
    """What has a smaller share of a mix is left out of it, the base model too."""
    max_quality_loss: float
    """Nats a token: a resident adapter is taken for the best one below this expected loss; 0:
    the best is always taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """How well each candidate suits a text."""

    quality: Array
    """Scores as if all were resident; [candidates]"""
    scores: Array
    """Scores with what loading costs marked down; [candidates]"""
    is_resident: NDArray[np.bool_]
    """Whether a worker holds it; [candidates]"""
    base: float
    """Score of the base model, which is always resident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which candidates serve, and with what strength."""

    adapters: Sequence[tuple[int, float]]
    """(candidate, share), largest share first; empty: the base model alone."""
    base_share: float
    """With the shares of the adapters it is 1."""
    reason: Reason
    quality_loss: float
    """Nats a token given up for residency, by the formula above; 0 where nothing was."""


_BASE = Decision(adapters=(), base_share=1.0, reason=Reason.BASE, quality_loss=0.0)


def decide(candidates: Candidates, temperature: float, rules: RoutingRules) -> Decision:
    """Chooses the base model, the best candidates, or a resident one that is nearly as good.

    Of those within `max_quality_loss` of the best, the one with the highest score serves: where it
    is resident and the best is not, it serves alone. Of equal candidates the first wins, of equal
    shares the base model; it also serves when a score is not a finite number.
    """
    quality = np.append(candidates.quality, np.float32(candidates.base)).astype(np.float64)
    if len(quality) == 1 or not np.isfinite(quality).all():
        return _BASE
    shares = softmax(quality)
    order = np.argsort(-quality[:-1], kind="stable")
    best = int(order[0])
    if quality[best] <= quality[-1] or shares[best] < rules.min_share:
        return _BASE
    adapters, base_share = _mix(shares, order[: rules.top_k], rules.min_mix_share)
    if not all(candidates.is_resident[chosen] for chosen, _ in adapters):
        losses = temperature * (quality[best] - quality[:-1])
        near = (losses < rules.max_quality_loss) & (quality[:-1] > quality[-1])
        chosen = int(np.argmax(np.where(near, candidates.scores, -np.inf)))
        if near[chosen] and candidates.is_resident[chosen]:
            adapters, base_share = _mix(shares, order[order == chosen], rules.min_mix_share)
            return Decision(
                adapters=adapters,
                base_share=base_share,
                reason=Reason.RESIDENT,
                quality_loss=float(losses[chosen]),
            )
    return Decision(adapters=adapters, base_share=base_share, reason=Reason.BEST, quality_loss=0.0)


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns exp(scores) over their sum."""
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum())


def _mix(
    shares: NDArray[np.float64], chosen: NDArray[np.int64], min_share: float
) -> tuple[list[tuple[int, float]], float]:
    """Shares of the chosen candidates and the base model, as parts of 1; the first always stays."""
    of_mix = shares[chosen] / (shares[chosen].sum() + shares[-1])
    is_kept = of_mix >= min_share
    is_kept[0] = True
    base = shares[-1] if shares[-1] / (shares[chosen].sum() + shares[-1]) >= min_share else 0.0
    kept = chosen[is_kept]
    total = shares[kept].sum() + base
    return [(int(each), float(shares[each] / total)) for each in kept], float(base / total)
