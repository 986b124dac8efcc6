"""Which ranks a run keeps, and what `--rank auto` may cost. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgelora.toolchain.errors import ToolchainError

DEFAULT_RANKS = (64, 32, 16)
"""The rule of three: as trained, and for a device that is warm or hot."""
DEFAULT_BUDGET = "r16"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """What is kept beside the adapter of the rank that is trained."""

    lower: tuple[int, ...] = ()
    """Ranks of the versions that stand in for it under pressure, highest first."""
    train_each: bool = False
    """Whether each of them is trained by itself; else it is cut from the first."""
    budget: str | None = None
    """Of `--rank auto`, as `budget_parameters` reads it; None keeps the rank that is trained."""

    def check(self, trained_rank: int, each: int) -> None:
        """Raises ToolchainError for a plan that can not be kept.

        `each`: parameters of one rank in every module.
        """
        if any(not 1 <= rank < trained_rank for rank in self.lower):
            raise ToolchainError(
                f"ranks must be 1 or more and below the first one, which is {trained_rank}"
            )
        if self.budget is None:
            return
        if self.train_each:
            raise ToolchainError("--train-each trains whole ranks: leave it out with --rank auto")
        budget = budget_parameters(self.budget, trained_rank, each)
        if budget < each:
            raise ToolchainError(
                f"the rank budget is {budget} parameters, rank 1 in every module takes {each}: "
                "raise it"
            )


_BUDGET = re.compile(r"r(?P<rank>[1-9]\d{0,3})|(?P<number>\d{1,12}(?:\.\d{1,6})?)(?P<unit>[%kKM]?)")
_UNITS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6}


def budget_parameters(text: str, trained_rank: int, each: int) -> int:
    """Reads a budget of parameters: `r16` (as many as rank 16 everywhere), `25%` (of what was
    trained), `5M`, `500k` or a plain number.

    `each`: parameters of one rank in every module. Raises ToolchainError for anything else.
    """
    found = _BUDGET.fullmatch(text.strip())
    if found is None:
        raise ToolchainError("rank budget: write r16, 25%, 5M, 500k or a number of parameters")
    if found["rank"]:
        return each * int(found["rank"])
    if found["unit"] == "%":
        return round(each * trained_rank * float(found["number"]) / 100)
    return round(float(found["number"]) * _UNITS[found["unit"]])
