"""The part of adapter_config.json that decides what an adapter computes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from edgelora.adapter_format.naming import matches_any, pattern_value

ALL_LINEAR: Literal["all-linear"] = "all-linear"
NO_TARGETS = "dummy-target-modules"
"""PEFT's word for no module at all; an empty list it does not load."""


def _no_patterns() -> Mapping[str, int]:
    return MappingProxyType({})


def _no_alphas() -> Mapping[str, float]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterConfig:
    """A LoRA configuration with PEFT's meaning, already validated."""

    rank: int
    """`r`: rank of every module without an entry in `rank_pattern`."""
    alpha: float
    """`lora_alpha`: numerator of the scaling of every module without an entry."""
    target_modules: frozenset[str] | Literal["all-linear"]
    """Module names or dotted tails of paths; or every linear module of every layer. Empty only
    beside a classifier."""
    use_rslora: bool = False
    """Scaling is alpha / sqrt(rank) instead of alpha / rank (arXiv 2312.03732)."""
    fan_in_fan_out: bool = False
    """How the training side stored the base weight. PEFT writes both factors in the same shapes
    either way, so it changes nothing for an unmerged adapter."""
    rank_pattern: Mapping[str, int] = field(default_factory=_no_patterns)
    alpha_pattern: Mapping[str, float] = field(default_factory=_no_alphas)
    exclude_modules: frozenset[str] = frozenset()
    layers_to_transform: tuple[int, ...] | None = None
    """Layer indices; None for all."""
    saves_classifier: bool = False
    """Of an encoder's adapter: the classifier was trained too, and is among its tensors."""

    @property
    def max_rank(self) -> int:
        """The largest rank the configuration allows any module."""
        return max(self.rank, *self.rank_pattern.values(), 0)

    def rank_of(self, path: str) -> int:
        """Rank of the module at a path such as `model.layers.0.self_attn.q_proj`."""
        return pattern_value(self.rank_pattern, path, self.rank)

    def scaling_of(self, path: str) -> float:
        """What the product of the factors is multiplied with for the module at a path."""
        alpha = pattern_value(self.alpha_pattern, path, self.alpha)
        rank = self.rank_of(path)
        return alpha / math.sqrt(rank) if self.use_rslora else alpha / rank

    def adapts(self, path: str, layer: int) -> bool:
        """Whether the configuration says that the module at a path of a layer is adapted.

        As in PEFT an exclusion comes first, and a target that is the whole path needs no layer.
        """
        if matches_any(self.exclude_modules, path):
            return False
        if not isinstance(self.target_modules, str):
            if path in self.target_modules:
                return True
            if not matches_any(self.target_modules, path):
                return False
        return self.layers_to_transform is None or layer in self.layers_to_transform

    def canonical_bytes(self) -> bytes:
        """A valid adapter_config.json with these fields alone, equal for equal configurations."""
        targets = self.target_modules
        layers = self.layers_to_transform
        document: dict[str, object] = {
            "alpha_pattern": dict(self.alpha_pattern),
            "exclude_modules": sorted(self.exclude_modules),
            "fan_in_fan_out": self.fan_in_fan_out,
            "layers_to_transform": None if layers is None else list(layers),
            "lora_alpha": self.alpha,
            "peft_type": "LORA",
            "r": self.rank,
            "rank_pattern": dict(self.rank_pattern),
            "target_modules": targets if isinstance(targets, str) else sorted(targets),
            "use_rslora": self.use_rslora,
        }
        if self.saves_classifier:
            document["modules_to_save"] = ["classifier"]
        # Keys of the pattern tables keep their order: the first that matches wins.
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
