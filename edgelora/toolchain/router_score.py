"""How good choices are, by measured losses, beside simpler policies and the best there is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLosses:
    """Mean loss of each policy over the same texts, nats a token."""

    random: float
    """The base and every adapter alike."""
    best_single: float
    """The one choice that is best for all texts."""
    best_single_name: str
    task_prior: float
    """Told each text's domain: the choice that is best for the domain."""
    router: float
    oracle: float
    """The best choice for each text."""
    gain: float | None
    """(router - best single) / (oracle - best single): 0 is as good as one adapter for all, 1 as
    good as can be. None when one adapter is the best for every text."""


def policy_losses(
    losses: NDArray[np.floating],
    domains: NDArray[np.integer],
    choices: NDArray[np.integer],
    names: Sequence[str],
) -> PolicyLosses:
    """Compares policies; best single and task prior are chosen with hindsight, on these texts.

    `losses`: [texts, choices]; `domains`, `choices`: [texts]; `names`: of the choices.
    """
    means = losses.mean(0)
    best = int(means.argmin())
    by_domain = [losses[domains == domain] for domain in np.unique(domains)]
    prior = sum(float(rows.sum(0).min()) for rows in by_domain) / len(losses)
    router = float(losses[np.arange(len(losses)), choices].mean())
    oracle = float(losses.min(1).mean())
    single = float(means[best])
    return PolicyLosses(
        random=round(float(losses.mean()), 4),
        best_single=round(single, 4),
        best_single_name=names[best],
        task_prior=round(prior, 4),
        router=round(router, 4),
        oracle=round(oracle, 4),
        gain=round((router - single) / (oracle - single), 4) if oracle < single else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfScope:
    """How texts that no adapter is for fared."""

    texts: int
    recall: float
    """Share of them that went to the base."""
    precision: float | None
    """Share of them among all texts that went to the base; None when none did."""


def out_of_scope(inside_to_base: int, outside_to_base: int, outside: int) -> OutOfScope:
    """Counts of texts inside every domain and outside that went to the base; `outside` > 0."""
    to_base = inside_to_base + outside_to_base
    return OutOfScope(
        texts=outside,
        recall=round(outside_to_base / outside, 4),
        precision=round(outside_to_base / to_base, 4) if to_base else None,
    )
