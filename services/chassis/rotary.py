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


@dataclass(frozen=True, slots=True)
class RotaryFrequencies:
    """How fast each pair of values in a head turns."""

    inverse: NDArray[np.float64]
    """Radians a position, shape [head_dim / 2]."""
    attention_factor: float
    """Multiplies the cosines and sines."""


def rotary_frequencies(config: Mapping[str, Any], head_dim: int) -> RotaryFrequencies:
    """Reads `rope_theta` and `rope_scaling`, or `rope_parameters` which holds both.

    Kinds: default, `linear` (arXiv 2306.15595), `dynamic`, `llama3` (Llama 3.1), `yarn` (arXiv
    2309.00071) and `longrope` (arXiv 2402.13753) with one set of factors. Raises ValueError for
    another kind or a field that is missing.
    """
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if scaling.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
        raise ValueError("config.json: the model rotates only part of a head: not supported")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    try:
        theta = float(scaling.get("rope_theta") or config.get("rope_theta") or 10000.0)
        plain = theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
        trained = scaling.get("original_max_position_embeddings") or config.get(
            "max_position_embeddings", 0
        )
        match kind:
            # Dynamic scaling begins beyond max_position_embeddings, where we serve nothing.
            case "default" | "dynamic":
                return RotaryFrequencies(plain, 1.0)
            case "linear":
                return RotaryFrequencies(plain / float(scaling["factor"]), 1.0)
            case "llama3":
                return RotaryFrequencies(_llama3(plain, float(trained), scaling), 1.0)
            case "yarn":
                return _yarn(plain, theta, float(trained), scaling)
            case "longrope":
                return _longrope(plain, scaling)
    except KeyError as error:
        raise ValueError(f"config.json: rope_scaling lacks {error.args[0]!r}") from error
    except (TypeError, ArithmeticError) as error:
        raise ValueError("config.json: rope_scaling holds a number out of range") from error
    raise ValueError(
        f"config.json: rope_scaling of type {kind!r} is not supported; "
        "supported: default, linear, dynamic, llama3, yarn, longrope"
    )


def _llama3(
    plain: NDArray[np.float64], trained: float, scaling: Mapping[str, Any]
) -> NDArray[np.float64]:
    """Slows the long wavelengths by `factor`, keeps the short ones, blends between."""
    low = float(scaling["low_freq_factor"])
    high = float(scaling["high_freq_factor"])
    turns = trained * plain / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    slowed: NDArray[np.float64] = plain * (kept + (1.0 - kept) / float(scaling["factor"]))
    return slowed


def _yarn(
    plain: NDArray[np.float64], theta: float, trained: float, scaling: Mapping[str, Any]
) -> RotaryFrequencies:
    """As llama3, but the blend is linear in the index of the pair; attention sharpens."""
    factor = float(scaling["factor"])
    pairs = len(plain)

    def pair_of(turns: float) -> float:
        """The pair that makes `turns` full turns within the trained context."""
        return pairs * math.log(trained / (turns * 2 * math.pi)) / math.log(theta)

    low = pair_of(float(scaling.get("beta_fast") or 32.0))
    high = pair_of(float(scaling.get("beta_slow") or 1.0))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * pairs - 1)
    slowed = np.clip((np.arange(pairs) - low) / max(high - low, 0.001), 0.0, 1.0)
    inverse = plain * (1.0 - slowed) + plain / factor * slowed

    def temperature(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1.0 else 1.0

    attention = scaling.get("attention_factor")
    if attention is None:
        mscale, mscale_all = scaling.get("mscale"), scaling.get("mscale_all_dim")
        attention = (
            temperature(float(mscale)) / temperature(float(mscale_all))
            if mscale and mscale_all
            else temperature(1.0)
        )
    return RotaryFrequencies(inverse, float(attention))


def _longrope(plain: NDArray[np.float64], scaling: Mapping[str, Any]) -> RotaryFrequencies:
    """Divides each pair's frequency by a factor of its own."""
    if scaling["long_factor"] != scaling["short_factor"]:
        raise ValueError(
            "config.json: rope_scaling changes its factors with the length: not supported"
        )
    factors = np.array(scaling["long_factor"], dtype=np.float64)
    if factors.shape != plain.shape or not (factors > 0).all():
        raise ValueError(f"config.json: rope_scaling needs {len(plain)} positive factors")
    return RotaryFrequencies(plain / factors, float(scaling["attention_factor"]))
