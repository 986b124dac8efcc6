"""Who used the engine's time: each step's, divided by what its rows cost. Pure.

A row costs its tokens times the parameters they pass: the base model's, and those of the adapters
that take part. A row with several adapters counts for each of them: their own parameters, and an
equal part of the base model's. Rows that fail have cost their time too; the canary of an adapter
that is being proven counts for that adapter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from services.chassis.base_model import BaseModel

OTHER = "other"
"""Stands for the adapters that are no longer counted by themselves."""
_MAX_DIGESTS = 1024
"""At least as many as there can be slots; of more, those unused for longest go together."""


def base_parameters(model: BaseModel) -> int:
    """What a token passes: the linear modules of all layers, and the head."""
    linear = sum(rows * columns for rows, columns in model.targets.values())
    return model.num_layers * linear + model.vocab_size * model.hidden_size


def adapter_parameters(model: BaseModel, rank: int) -> int:
    """What a token passes in an adapter of this rank on all modules."""
    return rank * model.num_layers * sum(map(sum, model.targets.values()))


class Row(NamedTuple):
    """What one sequence had in a step."""

    digests: tuple[str, ...]
    """Adapters that took part; empty is the base model."""
    num_tokens: int
    is_prompt: bool
    """Whether its tokens were read, or the newest one was run to get the next."""
    has_output: bool
    """Whether a token came of it."""


class AdapterShare(NamedTuple):
    """What one adapter used, or the base model alone (empty digest)."""

    digest: str
    step_s: float = 0.0
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    """A row with several adapters counts its tokens for each."""

    def plus(self, step_s: float, num_prompt_tokens: int, num_output_tokens: int) -> AdapterShare:
        """With what was used since."""
        return AdapterShare(
            self.digest,
            self.step_s + step_s,
            self.num_prompt_tokens + num_prompt_tokens,
            self.num_output_tokens + num_output_tokens,
        )


def busiest(shares: Sequence[AdapterShare], most: int) -> list[AdapterShare]:
    """The largest shares, at most `most`; what else there is goes together, as the last one."""
    named = [share for share in shares if share.digest != OTHER]
    rest = [share for share in shares if share.digest == OTHER]
    named.sort(key=lambda share: -share.step_s)
    if len(named) + len(rest) > most:
        named, rest = named[: most - 1], rest + named[most - 1 :]
    if rest:
        other = AdapterShare(OTHER)
        for share in rest:
            other = other.plus(*share[1:])
        named.append(other)
    return named


class Shares:
    """Totals since the start."""

    def __init__(self, num_base_parameters: int, parameters_of: Callable[[str], int]) -> None:
        """`parameters_of`: how many an adapter in a slot has; 0 where it has just left it."""
        self._num_base_parameters = num_base_parameters
        self._parameters_of = parameters_of
        self._shares: OrderedDict[str, AdapterShare] = OrderedDict()
        self._other: AdapterShare | None = None
        self.step_s = 0.0
        """Of all steps; what the shares add up to."""

    def divide(self, step_s: float, rows: Sequence[Row]) -> list[float]:
        """Adds a step of at least one row; returns the seconds of each row."""
        self.step_s += step_s
        base = self._num_base_parameters
        used = {digest: self._parameters_of(digest) for row in rows for digest in row.digests}
        costs = [row.num_tokens * (base + sum(map(used.__getitem__, row.digests))) for row in rows]
        s_per_cost = step_s / sum(costs)
        for row, cost in zip(rows, costs, strict=True):
            if not row.digests:
                self._add("", cost * s_per_cost, row)
                continue
            part = base / len(row.digests)
            for digest in row.digests:
                self._add(digest, row.num_tokens * (part + used[digest]) * s_per_cost, row)
        return [cost * s_per_cost for cost in costs]

    def totals(self) -> tuple[AdapterShare, ...]:
        """All shares; cheap enough for every step."""
        shares = tuple(self._shares.values())
        return shares if self._other is None else (*shares, self._other)

    def _add(self, digest: str, step_s: float, row: Row) -> None:
        share = self._shares.pop(digest, None) or AdapterShare(digest)
        self._shares[digest] = share.plus(
            step_s, row.num_tokens if row.is_prompt else 0, int(row.has_output)
        )
        if len(self._shares) > _MAX_DIGESTS:
            _, oldest = self._shares.popitem(last=False)
            other = self._other or AdapterShare(OTHER)
            self._other = other.plus(*oldest[1:])
