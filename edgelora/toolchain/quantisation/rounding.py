"""Rounded matrices, and plain rounding with a searched scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edgelora.toolchain.quantisation.kinds import GROUP, Kind

_SHARES = 12
"""Scales tried for a group, for each sign."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """A matrix of a kind: weight = scale * value + minimum."""

    kind: Kind
    scale: Tensor
    """fp32 [rows, groups], exact in half precision; may be negative."""
    minimum: Tensor | None
    """As `scale`, where the kind has one."""
    values: Tensor
    """int8 whole numbers, [rows, groups, 32]."""

    def weights(self) -> Tensor:
        """fp32 [rows, columns]."""
        weights = self.scale[..., None] * self.values.float()
        if self.minimum is not None:
            weights = weights + self.minimum[..., None]
        return weights.flatten(1)


def half(values: Tensor) -> Tensor:
    """Rounds to half precision, as fp32; never to infinity."""
    return values.clamp(-65504, 65504).half().float()


def round_to(values: Tensor, scale: Tensor, minimum: Tensor | None, kind: Kind) -> Tensor:
    """The nearest whole numbers. Shapes broadcast; a scale of 0 gives 0."""
    offset = values if minimum is None else values - minimum
    steps = torch.where(scale != 0, offset / torch.where(scale != 0, scale, 1.0), 0.0)
    return steps.round_().clamp_(kind.least, kind.most)


def candidates(groups: Tensor, kind: Kind) -> tuple[Tensor, Tensor | None]:
    """Scales (and minima) to try for groups [rows, 32]: each [tries, rows].

    From the full range of a group down to a share of it; without a minimum with both signs, for the
    lowest whole number reaches further than the highest.
    """
    if kind.has_minimum:
        low, high = groups.amin(-1), groups.amax(-1)
        shares = torch.linspace(1.05, 0.65, 2 * _SHARES)[:, None]
        middle, reach = (low + high) / 2, (high - low) / 2
        minimum = half(middle - shares * reach)
        return half((middle + shares * reach - minimum) / kind.most), minimum
    narrowest = {4: 0.6, 5: 0.7, 6: 0.8, 8: 0.95}[kind.bits]
    shares = torch.linspace(1.0, narrowest, _SHARES)[:, None]
    largest = groups.abs().amax(-1)
    scale = shares * largest / -kind.least
    # 8 bits reach as far on both sides.
    return half(scale if kind.bits == 8 else torch.cat([scale, -scale])), None


def round_plainly(weights: Tensor, kind: Kind, importance: Tensor | None = None) -> Rounded:
    """Rounds each weight to the nearest level, with the scale of least error in each group.

    `importance`: [columns], weighs the squared errors of the inputs.
    """
    rows, columns = weights.shape
    groups = weights.reshape(rows * columns // GROUP, GROUP)
    weigh = torch.ones(columns) if importance is None else importance
    weigh = weigh.view(1, -1, GROUP).expand(rows, -1, GROUP).reshape(-1, GROUP)
    scales, minima = candidates(groups, kind)
    best = torch.full((len(groups),), torch.inf)
    scale, minimum = torch.zeros(len(groups)), torch.zeros(len(groups))
    for number in range(len(scales)):
        step = scales[number][:, None]
        base = None if minima is None else minima[number][:, None]
        rounded = round_to(groups, step, base, kind) * step
        rounded = rounded if base is None else rounded + base
        error = ((groups - rounded).square_() * weigh).sum(-1)
        better = error < best
        best = torch.where(better, error, best)
        scale = torch.where(better, scales[number], scale)
        if minima is not None:
            minimum = torch.where(better, minima[number], minimum)
    least = minimum[:, None] if kind.has_minimum else None
    values = round_to(groups, scale[:, None], least, kind)
    return Rounded(
        kind,
        scale.view(rows, -1),
        minimum.view(rows, -1) if kind.has_minimum else None,
        values.view(rows, -1, GROUP).to(torch.int8),
    )


def stack(parts: Sequence[Rounded]) -> Rounded:
    """Puts matrices of one kind and width below each other."""
    minima = [part.minimum for part in parts if part.minimum is not None]
    return Rounded(
        parts[0].kind,
        torch.cat([part.scale for part in parts]),
        torch.cat(minima) if minima else None,
        torch.cat([part.values for part in parts]),
    )
