"""The numbers of a GGUF file (github.com/ggml-org/ggml, docs/gguf.md, "Standardized pairs")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgelora.toolchain.decoder_shape import DecoderShape, is_count
from edgelora.toolchain.errors import ToolchainError

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Served values of `general.architecture`. Mistral's files say llama."""
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class GgufMetadata:
    """The key-value pairs of a file."""

    architecture: str
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, fields: Mapping[str, Any], file_name: str) -> GgufMetadata:
        """Raises ToolchainError for an architecture that is not served."""
        architecture = fields.get("general.architecture")
        if architecture not in ARCHITECTURES:
            raise ToolchainError(
                f"{file_name} holds architecture {architecture!r}; "
                f"supported: {', '.join(ARCHITECTURES)}"
            )
        if fields.get("split.count", 0) not in (0, 1):
            raise ToolchainError(f"{file_name} is one part of several: merge them into one file")
        return cls(architecture, fields)

    def shape(
        self, *, vocab_size: int, tied_embeddings: bool, rope_factors: list[float] | None
    ) -> DecoderShape:
        """The model's numbers. Raises ToolchainError for one that is missing or not served."""
        heads = self._count("attention.head_count")
        hidden = self._count("embedding_length")
        head_dim = self._count("attention.key_length", hidden // heads)
        if (
            self._count("rope.dimension_count", head_dim) != head_dim
            or self._count("attention.value_length", head_dim) != head_dim
        ):
            raise ToolchainError(
                "the model rotates only part of a head, or has values of another size: "
                "not supported"
            )
        context = self._count("context_length")
        window = self._count("attention.sliding_window", context)
        return DecoderShape(
            family=self.architecture,
            vocab_size=vocab_size,
            hidden_size=hidden,
            intermediate_size=self._count("feed_forward_length"),
            num_layers=self._count("block_count"),
            num_heads=heads,
            num_kv_heads=self._count("attention.head_count_kv", heads),
            head_dim=head_dim,
            max_context_tokens=min(context, window),
            rope_theta=self._real("rope.freq_base", 10000.0),
            rope_scaling=self._rope_scaling(context, rope_factors),
            rms_norm_eps=self._real("attention.layer_norm_rms_epsilon"),
            tied_embeddings=tied_embeddings,
            sliding_window=window if window < context else None,
        )

    def _rope_scaling(
        self, context: int, rope_factors: list[float] | None
    ) -> dict[str, Any] | None:
        kind = self._get("rope.scaling.type", "none")
        if self._get("rope.scale_linear", 1.0) != 1.0:
            raise ToolchainError("the file's rope.scale_linear is of old: convert the model again")
        if rope_factors is not None:
            if kind != "none":
                raise ToolchainError(
                    f"the file scales its rotary positions twice ({kind} and factors): "
                    "not supported"
                )
            # A factor for each pair, whatever the length: config.json says it this way.
            return {
                "rope_type": "longrope",
                "long_factor": rope_factors,
                "short_factor": rope_factors,
                "attention_factor": 1.0,
                "original_max_position_embeddings": context,
            }
        if kind == "none":
            return None
        if kind not in ("linear", "yarn"):
            raise ToolchainError(
                f"the file's rope.scaling.type is {kind!r}; supported: none, linear, yarn"
            )
        if self._real("rope.scaling.attn_factor", 1.0) != 1.0:
            raise ToolchainError("the file's rope.scaling.attn_factor is not 1: not supported")
        scaling: dict[str, Any] = {"rope_type": kind, "factor": self._real("rope.scaling.factor")}
        if kind == "yarn":
            scaling["original_max_position_embeddings"] = self._count(
                "rope.scaling.original_context_length", context
            )
            for ours, theirs in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
                if self._get(f"rope.scaling.{theirs}", None) is not None:
                    scaling[ours] = self._real(f"rope.scaling.{theirs}")
        return scaling

    def _get(self, key: str, default: Any) -> Any:
        return self.fields.get(f"{self.architecture}.{key}", default)

    def _count(self, key: str, default: int | None = None) -> int:
        value = self._get(key, default)
        if not is_count(value) or value <= 0:
            raise ToolchainError(
                f"the file's {self.architecture}.{key} is missing or not a positive number"
            )
        return int(value)

    def _real(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        if not isinstance(value, int | float) or not 0 < value <= _MAX_FLOAT32:
            raise ToolchainError(
                f"the file's {self.architecture}.{key} is missing or not a positive number"
            )
        # The shortest decimal with the same float32 value: 1e-05, not 9.999999747378752e-06.
        return float(str(np.float32(value)))
