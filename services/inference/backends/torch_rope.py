"""Rotary position embedding (arXiv 2104.09864) as Llama-type models use it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RopeTables:
    """Cosines and signed sines of every position, shape [positions, 1, head_dim]."""

    cos: Tensor
    signed_sin: Tensor
    """The first half of the last axis is negated: it multiplies the swapped halves."""


def rope_tables(
    config: Mapping[str, Any], head_dim: int, positions: int, dtype: torch.dtype
) -> RopeTables:
    """Computes the tables from the fields of a Hugging Face `config.json`.

    Reads `rope_theta` and `rope_scaling`, or `rope_parameters` which holds both. Raises ValueError
    for a kind of scaling other than none, `linear` and `llama3`.
    """
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(scaling.get("rope_theta") or config.get("rope_theta") or 10000.0)
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    frequencies = theta**-exponents
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "linear":
        frequencies /= float(scaling["factor"])
    elif kind == "llama3":
        frequencies = _llama3(frequencies, scaling)
    elif kind != "default":
        raise ValueError(
            f"config.json: rope_scaling of type {kind!r} is not supported; "
            "supported: none, 'linear', 'llama3'"
        )
    angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
    cos, sin = angles.cos(), angles.sin()
    return RopeTables(
        cos=torch.cat((cos, cos), dim=-1).unsqueeze(1).to(dtype),
        signed_sin=torch.cat((-sin, sin), dim=-1).unsqueeze(1).to(dtype),
    )


def _llama3(frequencies: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    """Slows the long wavelengths by `factor`, keeps the short ones, blends between (Llama 3.1)."""
    factor = float(scaling["factor"])
    low = float(scaling["low_freq_factor"])
    high = float(scaling["high_freq_factor"])
    context = float(scaling["original_max_position_embeddings"])
    turns = context * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return frequencies * (kept + (1.0 - kept) / factor)


def rotate(heads: Tensor, cos: Tensor, signed_sin: Tensor) -> None:
    """Rotates [rows, heads, head_dim] in place; the tables are already picked by position."""
    half = heads.shape[-1] // 2
    swapped = torch.cat((heads[..., half:], heads[..., :half]), dim=-1)
    heads.mul_(cos).addcmul_(swapped, signed_sin)
