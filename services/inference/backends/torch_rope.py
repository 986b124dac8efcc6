"""Rotary position embedding (arXiv 2104.09864)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from services.chassis.rotary import RotaryFrequencies


@dataclass(frozen=True, slots=True)
class RopeTables:
    """Cosines and signed sines of every position, shape [positions, 1, head_dim]."""

    cos: Tensor
    signed_sin: Tensor
    """The first half of the last axis is negated: it multiplies the swapped halves."""


def rope_tables(frequencies: RotaryFrequencies, positions: int, dtype: torch.dtype) -> RopeTables:
    """Computes the tables of the first `positions` positions, in float64 up to the last step."""
    turning = torch.from_numpy(frequencies.inverse)
    angles = torch.outer(torch.arange(positions, dtype=torch.float64), turning)
    cos = angles.cos() * frequencies.attention_factor
    sin = angles.sin() * frequencies.attention_factor
    return RopeTables(
        cos=torch.cat((cos, cos), dim=-1).unsqueeze(1).to(dtype),
        signed_sin=torch.cat((-sin, sin), dim=-1).unsqueeze(1).to(dtype),
    )


def rotate(heads: Tensor, cos: Tensor, signed_sin: Tensor) -> None:
    """Rotates [rows, heads, head_dim] in place; the tables are already picked by position."""
    half = heads.shape[-1] // 2
    swapped = torch.cat((heads[..., half:], heads[..., :half]), dim=-1)
    heads.mul_(cos).addcmul_(swapped, signed_sin)
