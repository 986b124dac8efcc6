"""Which kind each product gets, from what rounding it costs and a budget of bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.quantisation.kinds import INT4, INT8, KINDS, Kind

MAX_DIVERGENCE = 0.01
"""Nats of predicted KL divergence up to which the default policy promotes products."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A product to choose a kind for."""

    name: str
    num_weights: int
    costs: Mapping[Kind, float]
    """Predicted KL divergence, in nats, when only this product is rounded to that kind."""
    default: Kind = INT4
    """What the default policy begins with."""


def default_policy(
    choices: Sequence[Choice], max_divergence: float = MAX_DIVERGENCE
) -> dict[str, Kind]:
    """The defaults, of which the ones that gain most for their bytes are promoted.

    Ends when the predicted divergences sum up to no more than `max_divergence`.
    """
    chosen = {choice.name: choice.default for choice in choices}
    while divergence(choices, chosen) > max_divergence:
        step = _best_step(choices, chosen, None)
        if step is None:
            break
        chosen[step[0]] = step[1]
    return chosen


def within_budget(choices: Sequence[Choice], num_bytes: int) -> dict[str, Kind]:
    """The kinds of least predicted divergence that take at most `num_bytes`.

    From the smallest kind of each, step by step to the one that gains most for its bytes.
    Raises ToolchainError when even the smallest kinds take more.
    """
    check_budget(choices, num_bytes)
    chosen = _smallest(choices)
    while (step := _best_step(choices, chosen, num_bytes)) is not None:
        chosen[step[0]] = step[1]
    return chosen


def check_budget(choices: Sequence[Choice], num_bytes: int) -> None:
    """Raises ToolchainError when even the smallest kinds take more than `num_bytes`."""
    least = size(choices, _smallest(choices))
    if least > num_bytes:
        smallest = min(KINDS, key=lambda kind: kind.bits_per_weight)
        raise ToolchainError(
            f"the size budget is {num_bytes / 1e6:.1f} MB, {smallest.name} needs "
            f"{least / 1e6:.1f} MB: raise it"
        )


def size(choices: Sequence[Choice], chosen: Mapping[str, Kind]) -> int:
    """Bytes of all products."""
    return sum(chosen[one.name].num_bytes(one.num_weights) for one in choices)


def divergence(choices: Sequence[Choice], chosen: Mapping[str, Kind]) -> float:
    """Predicted KL divergence in nats: errors of different products hardly meet, so they add up."""
    return sum(one.costs[chosen[one.name]] for one in choices)


def _smallest(choices: Sequence[Choice]) -> dict[str, Kind]:
    return {one.name: min(one.costs, key=lambda kind: kind.bits_per_weight) for one in choices}


def _best_step(
    choices: Sequence[Choice], chosen: Mapping[str, Kind], num_bytes: int | None
) -> tuple[str, Kind] | None:
    """The promotion that lowers the divergence most for each byte it takes; None: none fits."""
    free = None if num_bytes is None else num_bytes - size(choices, chosen)
    best: tuple[str, Kind] | None = None
    best_gain = 0.0
    for one in choices:
        now = chosen[one.name]
        for kind, cost in one.costs.items():
            more = kind.num_bytes(one.num_weights) - now.num_bytes(one.num_weights)
            if more <= 0 or (free is not None and more > free):
                continue
            gain = (one.costs[now] - cost) / more
            if gain > best_gain:
                best, best_gain = (one.name, kind), gain
    return best


def policy_kind(site: str) -> Kind:
    """What the default policy begins with at a site: attention inputs, embedding and head INT8."""
    return INT8 if site in ("attention", "embedding", "head") else INT4
