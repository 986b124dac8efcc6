"""Shapes of models for which random weights are measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    """Sizes of a llama-type decoder with a tied output head."""

    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    feed_forward_size: int


SHAPES = {
    "360m": DecoderShape(
        hidden_size=960, num_layers=32, num_heads=15, num_kv_heads=5, feed_forward_size=2560
    ),
    "1.7b": DecoderShape(
        hidden_size=2048, num_layers=24, num_heads=32, num_kv_heads=32, feed_forward_size=8192
    ),
}
"""The sizes of SmolLM2-360M and SmolLM2-1.7B."""
