"""Writes the packed model file that `Engine` maps.

The header (src/packed_file.h reads it): 8 bytes "EDGELORA", format version, bytes of header and
table together, vocab_size, hidden_size, num_layers, num_heads, num_kv_heads, head_size,
feed_forward_size, max_context_tokens (u32 each), norm_epsilon, attention_factor (f32 each), bytes
of the file (u64). `tensor_writer` has the rest.

Tensors: head, final norm, embedding (absent when it is the head), inverse rotary frequencies; then
for each layer attention norm, q/k/v together, output, feed-forward norm, gate/up block by block,
down, q/k/v bias, query norm, key norm.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgelora_native.matrices import GROUP, LANES, Matrix, concatenate, interleave_blocks
from edgelora_native.tensor_writer import TensorWriter

FORMAT_VERSION = 1
_MAGIC = b"EDGELORA"
_HEADER = struct.Struct("<8s10I2fQ")
_NUM_MODEL_TENSORS = 4
_NUM_LAYER_TENSORS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The sizes of a Llama-type decoder."""

    vocab_size: int
    """A multiple of 16."""
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    feed_forward_size: int
    max_context_tokens: int
    norm_epsilon: float
    attention_factor: float = 1.0
    """Multiplies the rotary sines and cosines (YaRN, arXiv 2309.00071)."""

    def __post_init__(self) -> None:
        """Raises ValueError for sizes the kernels do not serve."""
        for name in ("hidden_size", "head_size", "feed_forward_size"):
            if getattr(self, name) % GROUP:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: a multiple of {GROUP} is served"
                )
        if self.vocab_size % LANES:
            raise ValueError(f"vocab_size is {self.vocab_size}: pad it to a multiple of {LANES}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The tensors of one decoder layer. Query and key rows pair rotary halves (i, i + size / 2)."""

    attention_norm: NDArray[np.float32]
    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    feed_forward_norm: NDArray[np.float32]
    gate: Matrix
    up: Matrix
    down: Matrix
    qkv_bias: NDArray[np.float32] | None = None
    query_norm: NDArray[np.float32] | None = None
    key_norm: NDArray[np.float32] | None = None


def write_packed(
    path: Path,
    shape: ModelShape,
    *,
    head: Matrix,
    final_norm: NDArray[np.float32],
    embedding: Matrix | None,
    inverse_frequencies: NDArray[np.float32],
    layers: Iterable[Layer],
) -> None:
    """Writes a model, layer by layer, so that only one layer is in memory at a time.

    `embedding` is None when it is the head. `inverse_frequencies`: [head_size / 2].
    Raises ValueError when the layers are not as many as the shape says.
    """
    with path.open("wb") as file:
        writer = TensorWriter(
            file, _HEADER, _NUM_MODEL_TENSORS + shape.num_layers * _NUM_LAYER_TENSORS
        )
        for tensor in (head, final_norm, embedding, inverse_frequencies):
            writer.put(tensor)
        for layer in layers:
            writer.put(layer.attention_norm)
            writer.put(concatenate([layer.query, layer.key, layer.value]))
            writer.put(layer.output)
            writer.put(layer.feed_forward_norm)
            writer.put(interleave_blocks(layer.gate, layer.up))
            writer.put(layer.down)
            for tensor in (layer.qkv_bias, layer.query_norm, layer.key_norm):
                writer.put(tensor)
        writer.finish(
            _MAGIC,
            FORMAT_VERSION,
            shape.vocab_size,
            shape.hidden_size,
            shape.num_layers,
            shape.num_heads,
            shape.num_kv_heads,
            shape.head_size,
            shape.feed_forward_size,
            shape.max_context_tokens,
            shape.norm_epsilon,
            shape.attention_factor,
        )
