"""The ladder: how a request is served while the device is under pressure. Pure.

Its rungs, in this order: a lower-rank version of the adapter, if the store has one; the adapter is
off, and the fallback or the base model answers; a shorter answer; refusal. Each rung is taken for
new requests only, and is there again as soon as its rule no longer holds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgelora.v1.adapter_pb2 import ResolvedAdapter
from services.scheduler.pressure.restrictions import Cause, Restrictions

_MAX_STRENGTH = 2.0


class StepKind(enum.IntEnum):
    """A rung. The numbers are those of the DegradationStep proto."""

    RANK_CUT = 1
    ADAPTER_OFF = 2
    SHORTER_OUTPUT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rung that was taken."""

    kind: StepKind
    cause: Cause
    asked: ResolvedAdapter | None = None
    """What the selection was resolved to; None for a shorter output."""
    index: int | None = None
    """Which of the request's selections it was."""
    served: ResolvedAdapter | None = None
    """What answers in its place; None: the base model, or what else the request mixes."""
    max_output_tokens: int = 0
    """Of a shorter output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How a request is served."""

    adapters: Sequence[ResolvedAdapter]
    max_output_tokens: int
    steps: Sequence[Step] = ()

    def is_allowed(self, restrictions: Restrictions) -> bool:
        """Whether it may still be served so."""
        cap = restrictions.output_cap
        return not any(is_off(adapter, restrictions) for adapter in self.adapters) and (
            cap is None or self.max_output_tokens <= cap[0]
        )


def is_off(adapter: ResolvedAdapter, restrictions: Restrictions) -> bool:
    """Whether an adapter is above the ceiling. One of unknown rank counts as above."""
    ceiling = restrictions.rank_ceiling
    return ceiling is not None and not 0 < adapter.rank <= ceiling[0]


def descend(
    resolved: Sequence[ResolvedAdapter],
    fallback: ResolvedAdapter | None,
    max_output_tokens: int,
    restrictions: Restrictions,
) -> Serving:
    """Returns how a request is served whose selections were resolved under the ceiling.

    `fallback`, resolved likewise, stands once for all adapters that are off, with the strength of
    the strongest, unless it is off itself or in the mix already.
    """
    steps: list[Step] = []
    adapters = list(resolved)
    if (ceiling := restrictions.rank_ceiling) is not None:
        cause = ceiling[1]
        adapters = _merged(adapter for adapter in resolved if not is_off(adapter, restrictions))
        off = [adapter for adapter in resolved if is_off(adapter, restrictions)]
        served = fallback if fallback and not is_off(fallback, restrictions) else None
        if off and served is not None:
            served = _with_strength(served, max(adapter.strength for adapter in off))
            if served.digest not in {adapter.digest for adapter in adapters}:
                adapters.append(served)
        steps += [
            Step(kind=StepKind.RANK_CUT, cause=cause, asked=adapter, index=index, served=adapter)
            for index, adapter in enumerate(resolved)
            if adapter.version_of_digest and not is_off(adapter, restrictions)
        ]
        steps += [
            Step(kind=StepKind.ADAPTER_OFF, cause=cause, asked=adapter, index=index, served=served)
            for index, adapter in enumerate(resolved)
            if is_off(adapter, restrictions)
        ]
    if (cap := restrictions.output_cap) is not None and cap[0] < max_output_tokens:
        max_output_tokens, cause = cap
        steps.append(
            Step(
                kind=StepKind.SHORTER_OUTPUT,
                cause=cause,
                max_output_tokens=max_output_tokens,
            )
        )
    return Serving(adapters=adapters, max_output_tokens=max_output_tokens, steps=steps)


def _merged(adapters: Iterable[ResolvedAdapter]) -> list[ResolvedAdapter]:
    """Each adapter once: a selection may be cut to a version that another one names."""
    merged: dict[str, ResolvedAdapter] = {}
    for adapter in adapters:
        before = merged.get(adapter.digest)
        merged[adapter.digest] = (
            _with_strength(before, min(_MAX_STRENGTH, before.strength + adapter.strength))
            if before
            else adapter
        )
    return list(merged.values())


def _with_strength(adapter: ResolvedAdapter, strength: float) -> ResolvedAdapter:
    copy = ResolvedAdapter()
    copy.CopyFrom(adapter)
    copy.strength = strength
    return copy
