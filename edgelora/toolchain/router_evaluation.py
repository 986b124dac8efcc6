"""Judges a router on texts it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from edgelora.routing import Router
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.router_choices import choose_all, decision_seconds, prototypes_of
from edgelora.toolchain.router_losses import choose_measured, measure_losses, measuring_precision
from edgelora.toolchain.router_score import OutOfScope, PolicyLosses, out_of_scope, policy_losses
from edgelora.toolchain.router_sources import Source

TIMED_CANDIDATES = 64
_TIMED_TEXTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTime:
    """From a text to the scores, in this process."""

    candidates: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterEvaluation:
    """What came out."""

    adapters: list[str]
    texts: int
    accuracy: float
    """Mean over the domains of the share of texts that went to their own adapter."""
    accuracy_by_domain: dict[str, float]
    to_base: float
    """Share of texts inside a domain that went to the base."""
    measured: int
    """Texts whose losses were measured."""
    precision: str
    losses: PolicyLosses
    out_of_scope: OutOfScope | None
    decision: DecisionTime


def evaluate_router(
    router: Router,
    sources: Sequence[Source],
    outside: Sequence[str],
    *,
    model_directory: Path,
    losses_directory: Path,
    samples: int,
    threads: int | None = None,
) -> RouterEvaluation:
    """Routes every text of the sources by the adapters' cards, and measures some of them.

    `outside`: texts that no adapter is for, or none. `samples`: most texts of each domain whose
    losses are measured. `threads`: of the processor; None lets torch choose. Raises ToolchainError
    when an adapter does not fit the model.
    """
    if samples < 1:
        raise ToolchainError(f"samples is {samples}: it must be at least 1")
    if threads is not None:
        torch.set_num_threads(threads)
    count = len(sources)
    table = prototypes_of(router, sources)
    choices = [choose_all(router, table, source.texts) for source in sources]
    right = {
        source.name: round(float(np.mean(chosen == number)), 4)
        for number, (source, chosen) in enumerate(zip(sources, choices, strict=True))
    }
    inside_to_base = sum(int((chosen == count).sum()) for chosen in choices)
    total = sum(map(len, choices))
    fate = None
    if outside:
        went = int((choose_all(router, table, outside) == count).sum())
        fate = out_of_scope(inside_to_base, went, len(outside))

    measured = [choose_measured(source.conversations, samples) for source in sources]
    losses, _ = measure_losses(
        [
            source.conversations[index]
            for source, indices in zip(sources, measured, strict=True)
            for index in indices
        ],
        sources,
        model_directory,
        losses_directory,
    )
    picked = np.concatenate(
        [chosen[indices] for chosen, indices in zip(choices, measured, strict=True)]
    )
    taken = decision_seconds(router, sources, _some_texts(sources, _TIMED_TEXTS), TIMED_CANDIDATES)
    p50, p99 = np.percentile(taken, [50, 99]) * 1e3
    return RouterEvaluation(
        adapters=[source.name for source in sources],
        texts=total,
        accuracy=round(float(np.mean(list(right.values()))), 4),
        accuracy_by_domain=right,
        to_base=round(inside_to_base / total, 4),
        measured=len(losses),
        precision=str(measuring_precision()[1]).removeprefix("torch."),
        losses=policy_losses(
            losses,
            np.repeat(np.arange(count), [len(indices) for indices in measured]),
            np.where(picked == count, 0, picked + 1),
            ["base", *(source.name for source in sources)],
        ),
        out_of_scope=fate,
        decision=DecisionTime(
            candidates=TIMED_CANDIDATES, p50_ms=round(float(p50), 3), p99_ms=round(float(p99), 3)
        ),
    )


def _some_texts(sources: Sequence[Source], count: int) -> list[str]:
    texts = [text for source in sources for text in source.texts]
    step = max(1, len(texts) // count)
    return texts[::step][:count]
