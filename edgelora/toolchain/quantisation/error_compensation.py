"""Rounding that makes up for its errors: GPTQ (arXiv 2210.17323), then coordinate descent.

For inputs X of a product the error of rounded weights Q is (W - Q) H (W - Q)^T, H = X X^T. GPTQ
rounds input after input and moves what was lost onto the inputs that follow. Here a group of 32
inputs is rounded once for each candidate scale, with the moves inside the group, and each row keeps
its best; groups come in the order of their energy. Afterwards all scales of a row are fitted
together (least squares) and every number is moved to its best level with all others fixed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgelora.toolchain.quantisation.kinds import GROUP, Kind
from edgelora.toolchain.quantisation.rounding import Rounded, candidates, half, round_to, stack
from edgelora.toolchain.quantisation.workers import Workers

DAMPING = 0.01
"""Share of the mean diagonal of second moments that is added to it."""
_SWEEPS = 1
_ROWS = 288
"""Rows rounded at a time: memory for the candidates."""


def damped(hessian: Tensor, share: float = DAMPING) -> Tensor:
    """Makes second moments safe to invert: `share` of their mean diagonal is added to it."""
    mean = hessian.diagonal().mean().clamp(min=1e-12)
    return hessian + torch.eye(len(hessian)) * (share * mean)


class Compensation:
    """What rounding needs to know of the inputs of a product."""

    def __init__(self, hessian: Tensor) -> None:
        """`hessian`: second moments of the inputs, [columns, columns], damped."""
        self._hessian = hessian
        # In the order of rounding, the upper Cholesky factor of the inverse.
        self._order = _order(hessian.diagonal())
        ordered = hessian[self._order][:, self._order].double()
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(ordered))
        del ordered
        self._factor = torch.linalg.cholesky(inverse, upper=True).float()

    @property
    def remaining_error(self) -> float:
        """The share of plain rounding's squared error that compensation leaves, 0 to 1.

        Whatever the weights: both are sums over inputs of the same error of one number, weighed by
        the diagonal of the second moments or by what GPTQ leaves of it.
        """
        left = self._factor.diagonal().square().reciprocal().sum()
        return min(1.0, float(left / self._hessian.diagonal().sum()))

    def round(self, weights: Tensor, kind: Kind, workers: Workers) -> Rounded:
        """Rounds [rows, columns] to a kind."""

        def round_rows(piece: Tensor) -> Rounded:
            return _round_rows(piece, self._hessian, self._factor, self._order, kind)

        pieces = weights.tensor_split(-(-len(weights) // _ROWS))
        return stack(list(workers.map(round_rows, pieces)))


def output_error(difference: Tensor, hessian: Tensor) -> float:
    """The squared error of the outputs, summed."""
    return float(((difference @ hessian) * difference).sum())


def _order(energy: Tensor) -> Tensor:
    """Inputs in the order of rounding: groups by energy, and inside a group by energy."""
    groups = energy.view(-1, GROUP)
    inside = groups.argsort(dim=1, descending=True, stable=True)
    columns = inside + torch.arange(len(groups))[:, None] * GROUP
    return columns[groups.sum(1).argsort(descending=True, stable=True)].reshape(-1)


def _round_rows(
    weights: Tensor, hessian: Tensor, factor: Tensor, order: Tensor, kind: Kind
) -> Rounded:
    rows, columns = weights.shape
    left = weights[:, order].clone()
    scale = torch.zeros(rows, columns // GROUP)
    minimum = torch.zeros_like(scale) if kind.has_minimum else None
    values = torch.zeros(rows, columns)
    for start in range(0, columns, GROUP):
        stop = start + GROUP
        group = int(order[start]) // GROUP
        block = left[:, start:stop]
        scales, minima = candidates(block, kind)
        inner = factor[start:stop, start:stop]
        rounded, errors = _try_all(block, scales, minima, inner, kind)
        best = errors.square().sum(1).argmin(0)  # [tries, 32, rows] -> [rows]
        row = torch.arange(rows)
        scale[:, group] = scales[best, row]
        if minimum is not None and minima is not None:
            minimum[:, group] = minima[best, row]
        values[:, order[start:stop]] = rounded[best, :, row]
        left[:, stop:] -= errors[best, :, row] @ factor[start:stop, stop:]
    found = Rounded(kind, scale, minimum, values.view(rows, -1, GROUP).to(torch.int8))
    for _ in range(_SWEEPS):
        found = _move_values(weights, _fit_scales(weights, found, hessian), hessian)
    return _fit_scales(weights, found, hessian)


def _try_all(
    block: Tensor, scales: Tensor, minima: Tensor | None, inner: Tensor, kind: Kind
) -> tuple[Tensor, Tensor]:
    """Rounds a group with every candidate.

    Returns whole numbers and errors as GPTQ weighs them, both [tries, 32, rows].
    """
    tries, rows = scales.shape
    rounded = torch.empty(tries, GROUP, rows)
    errors = torch.empty(tries, GROUP, rows)
    for column in range(GROUP):
        wanted = block[:, column].expand(tries, rows)
        if column:
            moved = torch.einsum("j,tjr->tr", inner[:column, column], errors[:, :column])
            wanted = wanted - moved
        chosen = round_to(wanted, scales, minima, kind)
        rounded[:, column] = chosen
        level = chosen * scales if minima is None else chosen * scales + minima
        errors[:, column] = (wanted - level) / inner[column, column]
    return rounded, errors


def _fit_scales(weights: Tensor, found: Rounded, hessian: Tensor) -> Rounded:
    """The scales (and minima) of each row that err least with its whole numbers as they are."""
    rows, groups, _ = found.values.shape
    parts = [found.values.float()]
    if found.minimum is not None:
        parts.append(torch.ones_like(parts[0]))
    basis = torch.cat(parts, dim=1)  # [rows, unknowns, 32], unknown u acts on group u % groups
    unknowns = basis.shape[1]
    normal = torch.empty(rows, unknowns, unknowns)
    for unknown in range(unknowns):
        at = unknown % groups * GROUP
        spread = (basis[:, unknown] @ hessian[at : at + GROUP]).view(rows, groups, GROUP)
        spread = torch.cat([spread] * len(parts), dim=1)
        normal[:, :, unknown] = (spread * basis).sum(-1)
    target = (weights @ hessian).view(rows, groups, GROUP)
    target = (torch.cat([target] * len(parts), dim=1) * basis).sum(-1)
    before = found.scale if found.minimum is None else torch.cat([found.scale, found.minimum], 1)
    # A little weight on the old scales decides where a group is all zeros.
    weight = normal.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-20) * 1e-4
    normal.diagonal(dim1=1, dim2=2).add_(weight[:, None])
    solved = torch.linalg.solve(normal, target + weight[:, None] * before)
    solved = half(solved)
    if found.minimum is None:
        return _better(weights, found, Rounded(found.kind, solved, None, found.values), hessian)
    after = Rounded(found.kind, solved[:, :groups], solved[:, groups:], found.values)
    return _better(weights, found, after, hessian)


def _move_values(weights: Tensor, found: Rounded, hessian: Tensor) -> Rounded:
    """Moves each whole number to its best level, all others fixed, group after group."""
    values = found.values.float()
    error = weights - found.weights()
    slope = error @ hessian
    for group in range(values.shape[1]):
        at = group * GROUP
        inner = hessian[at : at + GROUP, at : at + GROUP]
        scale = found.scale[:, group]
        before = values[:, group].clone()
        near = slope[:, at : at + GROUP].clone()
        for column in range(GROUP):
            level = values[:, group, column] * scale
            wanted = level + near[:, column] / inner[column, column]
            chosen = round_to(wanted, scale, None, found.kind)
            change = chosen * scale - level
            values[:, group, column] = chosen
            near -= change[:, None] * inner[column]
        moved = (values[:, group] - before) * scale[:, None]
        slope -= moved @ hessian[at : at + GROUP]
    return Rounded(found.kind, found.scale, found.minimum, values.to(torch.int8))


def _better(weights: Tensor, before: Rounded, after: Rounded, hessian: Tensor) -> Rounded:
    """Row by row the one that errs less: half precision and bad conditioning can cost."""

    def errors(one: Rounded) -> Tensor:
        difference = weights - one.weights()
        return ((difference @ hessian) * difference).sum(1)

    wins = (errors(after) < errors(before))[:, None]
    minimum = None
    if before.minimum is not None and after.minimum is not None:
        minimum = torch.where(wins, after.minimum, before.minimum)
    return Rounded(
        before.kind,
        torch.where(wins, after.scale, before.scale),
        minimum,
        torch.where(wins[..., None], after.values, before.values),
    )
