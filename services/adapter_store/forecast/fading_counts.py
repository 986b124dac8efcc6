"""Counts of choices by context that fade with time. Pure: the time is given.

Instead of shrinking old counts, new ones are added larger (forward decay: Cormode et al., "Forward
decay: a practical time decay model for streaming systems", ICDE 2009), so that noting and reading
touch only the cells they name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

_MAX_EXPONENT = 200.0
_NEGLIGIBLE = 1e-3
_MAX_CELL = 1e100
_NOTHING: Mapping[str, float] = {}


class FadingCounts:
    """Context -> choice -> weight; a weight of 1 is worth 1/2 after `half_life_days`.

    Days are numbers that never go back. Cells hold weights as of `origin_days`.
    """

    __slots__ = ("_cells", "_half_life_days", "_origin_days", "_totals", "num_cells")

    def __init__(self, half_life_days: float, origin_days: float) -> None:
        self._half_life_days = half_life_days
        self._origin_days = origin_days
        self._cells: dict[str, dict[str, float]] = {}
        self._totals: dict[str, float] = {}
        self.num_cells = 0

    def add(self, context: str, choice: str, now_days: float, weight: float = 1.0) -> None:
        """Counts a choice made now."""
        exponent = (now_days - self._origin_days) / self._half_life_days
        if exponent > _MAX_EXPONENT:
            self.prune(now_days, _NEGLIGIBLE)
            exponent = 0.0
        grown = weight * math.exp2(exponent)
        cells = self._cells.setdefault(context, {})
        if choice not in cells:
            self.num_cells += 1
            cells[choice] = grown
        else:
            cells[choice] += grown
        self._totals[context] = self._totals.get(context, 0.0) + grown

    def scale(self, now_days: float) -> float:
        """What a cell is multiplied with to be its weight now."""
        return math.exp2((self._origin_days - now_days) / self._half_life_days)

    def cells(self, context: str) -> Mapping[str, float]:
        """Choice -> cell, of one context."""
        return self._cells.get(context, _NOTHING)

    def total(self, context: str) -> float:
        """The sum of a context's cells."""
        return self._totals.get(context, 0.0)

    def choices(self) -> set[str]:
        """Every choice counted in any context."""
        return {choice for cells in self._cells.values() for choice in cells}

    def prune(self, now_days: float, floor: float) -> None:
        """Moves the origin to now, and drops what weighs less than `floor`."""
        scale = self.scale(now_days)
        self._origin_days = now_days
        kept = (
            (context, {choice: cell * scale for choice, cell in cells.items()})
            for context, cells in self._cells.items()
        )
        self._replace(
            {
                context: {choice: weight for choice, weight in cells.items() if weight >= floor}
                for context, cells in kept
            }
        )

    def remove(self, choice: str) -> None:
        """Forgets a choice in every context."""
        self._replace(
            {
                context: {other: cell for other, cell in cells.items() if other != choice}
                for context, cells in self._cells.items()
            }
        )

    def remove_contexts(self, contexts: Collection[str]) -> None:
        """Forgets contexts."""
        self._replace(
            {context: cells for context, cells in self._cells.items() if context not in contexts}
        )

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {"origin": self._origin_days, "cells": self._cells}

    def load(self, document: Mapping[str, Any], now_days: float) -> None:
        """Takes what `document` gave. Raises ValueError, TypeError or KeyError on other data."""
        cells = {
            str(context): {str(choice): float(cell) for choice, cell in choices.items()}
            for context, choices in document["cells"].items()
        }
        origin_days = float(document["origin"])
        if not 0.0 <= origin_days <= now_days or not all(
            0.0 <= cell < _MAX_CELL for each in cells.values() for cell in each.values()
        ):
            raise ValueError("a count is not one that was counted")
        self._origin_days = origin_days
        self._replace(cells)

    def _replace(self, cells: dict[str, dict[str, float]]) -> None:
        self._cells = {context: choices for context, choices in cells.items() if choices}
        self._totals = {context: sum(choices.values()) for context, choices in self._cells.items()}
        self.num_cells = sum(map(len, self._cells.values()))
