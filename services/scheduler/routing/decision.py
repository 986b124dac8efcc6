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


def decide(
    quality: Array,
    scores: Array,
    is_resident: NDArray[np.bool_],
    temperature: float,
    rules: RoutingRules,
) -> Decision:
    """Chooses the base model, the best candidates, or a resident one that is nearly as good.

    `quality` are the scores as if every candidate was resident, `scores` those with what loading
    costs marked down, both [candidates + 1] with the base last; `is_resident` is [candidates].

    Where the best mix is not resident, the resident candidate with the highest of `scores` serves
    alone, if it is within `max_quality_loss` of the best. Of equal candidates the first wins, of
    equal shares the base model; it also serves when a number is not finite.
    """
    if len(quality) == 1 or not (np.isfinite(quality).all() and np.isfinite(scores).all()):
        return _BASE
    wide = quality.astype(np.float64)
    shares = softmax(wide)
    order = np.argsort(-wide[:-1], kind="stable")
    best = order[0]
    if wide[best] <= wide[-1] or shares[best] < rules.min_share:
        return _BASE
    adapters, base_share = _mix(shares, order[: rules.top_k], rules.min_mix_share)
    reason, quality_loss = Reason.BEST, 0.0
    if not all(is_resident[candidate] for candidate, _ in adapters):
        losses = temperature * (wide[best] - wide[:-1])
        is_near = is_resident & (losses < rules.max_quality_loss) & (wide[:-1] > wide[-1])
        chosen = np.argmax(np.where(is_near, scores[:-1], -np.inf))
        if is_near[chosen]:
            adapters, base_share = _mix(shares, np.array([chosen]), rules.min_mix_share)
            reason, quality_loss = Reason.RESIDENT, float(losses[chosen])
    return Decision(
        adapters=adapters, base_share=base_share, reason=reason, quality_loss=quality_loss
    )


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
