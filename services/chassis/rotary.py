"""Rotary frequencies (arXiv 2104.09864) from the fields of a Hugging Face `config.json`.

Model preparation puts them into the packed file; the torch back end computes them when it loads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_RADIANS = 1e6
"""A position; beyond it float32 holds no angle."""
KINDS = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")


@dataclass(frozen=True, slots=True)
class RotaryFrequencies:
    """How fast each pair of values in a head turns."""

    inverse: NDArray[np.float64]
    """Radians a position, shape [head_dim / 2]."""
    attention_factor: float = 1.0
    """Multiplies the cosines and sines."""


def rotary_frequencies(config: Mapping[str, Any], head_dim: int) -> RotaryFrequencies:
    """Reads `rope_theta` and `rope_scaling`, or `rope_parameters` which holds both.

    Kinds: default, `linear` (arXiv 2306.15595), `dynamic`, `llama3` (Llama 3.1), `yarn` (arXiv
    2309.00071) and `longrope` (arXiv 2402.13753) with one set of factors. Raises ValueError for
    another kind, and for a number that is missing or out of range.
    """
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        raise ValueError("config.json: rope_scaling is no object")
    if scaling.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
        raise ValueError("config.json: the model rotates only part of a head: not supported")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in KINDS:
        raise ValueError(
            f"config.json: rope_scaling of type {kind!r} is not supported; "
            f"supported: {', '.join(KINDS)}"
        )
    base = {"rope_theta": config.get("rope_theta"), **scaling}
    theta = _positive(base, "rope_theta", 10000.0)
    trained = _positive(
        scaling, "original_max_position_embeddings", config.get("max_position_embeddings")
    )
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            plain = theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
            frequencies = _scaled(kind, plain, theta, trained, scaling)
    except ArithmeticError as error:
        raise ValueError("config.json: rope_scaling holds a number out of range") from error
    if not (frequencies.inverse < _MOST_RADIANS).all():
        raise ValueError("config.json: rope_scaling holds a number out of range")
    return frequencies


def _scaled(
    kind: str, plain: NDArray[np.float64], theta: float, trained: float, scaling: Mapping[str, Any]
) -> RotaryFrequencies:
    match kind:
        case "linear":
            return RotaryFrequencies(plain / _positive(scaling, "factor"))
        case "llama3":
            return RotaryFrequencies(_llama3(plain, trained, scaling))
        case "yarn":
            return _yarn(plain, theta, trained, scaling)
        case "longrope":
            return _longrope(plain, scaling)
    # Dynamic scaling begins beyond max_position_embeddings, where we serve nothing.
    return RotaryFrequencies(plain)


def _llama3(
    plain: NDArray[np.float64], trained: float, scaling: Mapping[str, Any]
) -> NDArray[np.float64]:
    """Slows the long wavelengths by `factor`, keeps the short ones, blends between."""
    low = _positive(scaling, "low_freq_factor")
    high = _positive(scaling, "high_freq_factor")
    turns = trained * plain / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    slowed: NDArray[np.float64] = plain * (kept + (1.0 - kept) / _positive(scaling, "factor"))
    return slowed


def _yarn(
    plain: NDArray[np.float64], theta: float, trained: float, scaling: Mapping[str, Any]
) -> RotaryFrequencies:
    """As llama3, but the blend is linear in the index of the pair; attention sharpens."""
    factor = _positive(scaling, "factor")
    pairs = len(plain)

    def pair_of(turns: float) -> float:
        """The pair that makes `turns` full turns within the trained context."""
        return pairs * math.log(trained / (turns * 2 * math.pi)) / math.log(theta)

    low = pair_of(_positive(scaling, "beta_fast", 32.0))
    high = pair_of(_positive(scaling, "beta_slow", 1.0))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * pairs - 1)
    slowed = np.clip((np.arange(pairs) - low) / max(high - low, 0.001), 0.0, 1.0)

    def temperature(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1.0 else 1.0

    usual = temperature(1.0)
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        usual = temperature(_positive(scaling, "mscale"))
        usual /= temperature(_positive(scaling, "mscale_all_dim"))
    return RotaryFrequencies(
        plain * (1.0 - slowed) + plain / factor * slowed,
        _positive(scaling, "attention_factor", usual),
    )


def _longrope(plain: NDArray[np.float64], scaling: Mapping[str, Any]) -> RotaryFrequencies:
    """Divides each pair's frequency by a factor of its own."""
    factors = scaling.get("long_factor")
    if factors != scaling.get("short_factor"):
        raise ValueError(
            "config.json: rope_scaling changes its factors with the length: not supported"
        )
    if (
        not isinstance(factors, list)
        or len(factors) != len(plain)
        or not all(isinstance(one, int | float) and 0 < one < math.inf for one in factors)
    ):
        raise ValueError(f"config.json: rope_scaling needs {len(plain)} positive factors")
    return RotaryFrequencies(
        plain / np.array(factors, dtype=np.float64), _positive(scaling, "attention_factor")
    )


def _positive(fields: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """Null counts as missing, as in transformers."""
    value = fields.get(name)
    value = default if value is None else value
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"config.json: {name} is missing or not a positive number")
    return float(value)
