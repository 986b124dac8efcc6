"""Writes the packed file that `Encoder` maps: a BERT-type model in 8 bits.

The header (src/encoder_file.h reads it): 8 bytes "EDGEBERT", format version, bytes of header and
table together, vocab_size, hidden_size, num_layers, num_heads, feed_forward_size,
max_context_tokens, GELU (0 exact, 1 by tanh) (u32 each), norm_epsilon (f32), bytes of the file
(u64). `tensor_writer` has the rest.

Tensors: words, positions, embedding norm and its bias, pooler and its bias (absent in models
without one); then for each layer the factors of its inputs, query/key/value together, attention
output, attention norm, the factors of the intermediate inputs, intermediate, output and output
norm, all but the factors followed by their bias.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from edgelora_native.matrices import GROUP, Matrix8, concatenate
from edgelora_native.tensor_writer import TensorWriter

FORMAT_VERSION = 1
_MAGIC = b"EDGEBERT"
_HEADER = struct.Struct("<8s9IfQ")
_NUM_MODEL_TENSORS = 6
_NUM_LAYER_TENSORS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """The sizes of a BERT-type encoder."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    feed_forward_size: int
    max_context_tokens: int
    norm_epsilon: float
    gelu_by_tanh: bool
    """Whether GELU is approximated by tanh, as in `gelu_new`, or exact."""

    def __post_init__(self) -> None:
        """Raises ValueError for sizes the kernels do not serve."""
        if self.hidden_size % self.num_heads:
            raise ValueError("hidden_size is no multiple of the number of heads")
        sizes = {
            "head size": self.hidden_size // self.num_heads,
            "feed_forward_size": self.feed_forward_size,
        }
        for name, size in sizes.items():
            if size % GROUP:
                raise ValueError(f"{name} is {size}: a multiple of {GROUP} is served")


@dataclass(frozen=True, slots=True)
class RowTable:
    """Vectors in 8 bits that lie row by row, as they are looked up: the words."""

    matrix: Matrix8

    kind: ClassVar[int] = 8
    """Its number in the packed file."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape

    def blocks(self) -> NDArray[np.uint8]:
        """Its bytes: [rows, groups, 34], of a group the scale and 32 values."""
        rows, groups = self.matrix.scale.shape
        out = np.empty((rows, groups, 34), dtype=np.uint8)
        out[..., :2] = self.matrix.scale.astype("<f2")[..., None].view(np.uint8)
        out[..., 2:] = self.matrix.values.view(np.uint8)
        return out


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear module: W [out, in] and its bias."""

    weight: Matrix8
    bias: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Norm:
    """A LayerNorm."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderLayer:
    """The tensors of one layer.

    Factors, [hidden_size], are what the core multiplies the inputs by before it rounds them to 8
    bits; the matrices that follow have been divided by them, input by input.
    """

    factors: NDArray[np.float32]
    """Of query, key and value."""
    intermediate_factors: NDArray[np.float32]
    query: Linear
    key: Linear
    value: Linear
    attention_output: Linear
    attention_norm: Norm
    intermediate: Linear
    output: Linear
    output_norm: Norm


def write_packed_encoder(
    path: Path,
    shape: EncoderShape,
    *,
    words: RowTable,
    positions: NDArray[np.float32],
    embedding_norm: Norm,
    pooler: Linear | None,
    layers: Iterable[EncoderLayer],
) -> None:
    """Writes a model, layer by layer, so that only one layer is in memory at a time.

    `positions`: [max_context_tokens, hidden_size], with the vector of the first token type added to
    each. Raises ValueError when the layers are not as many as the shape says.
    """
    with path.open("wb") as file:
        writer = TensorWriter(
            file, _HEADER, _NUM_MODEL_TENSORS + shape.num_layers * _NUM_LAYER_TENSORS
        )
        for tensor in (words, positions, embedding_norm.weight, embedding_norm.bias):
            writer.put(tensor)
        writer.put(None if pooler is None else pooler.weight)
        writer.put(None if pooler is None else pooler.bias)
        for layer in layers:
            attention = (layer.query, layer.key, layer.value)
            writer.put(layer.factors)
            writer.put(concatenate([linear.weight for linear in attention]))
            writer.put(np.concatenate([linear.bias for linear in attention]))
            for part in (layer.attention_output, layer.attention_norm):
                writer.put(part.weight)
                writer.put(part.bias)
            writer.put(layer.intermediate_factors)
            for part in (layer.intermediate, layer.output, layer.output_norm):
                writer.put(part.weight)
                writer.put(part.bias)
        writer.finish(
            _MAGIC,
            FORMAT_VERSION,
            shape.vocab_size,
            shape.hidden_size,
            shape.num_layers,
            shape.num_heads,
            shape.feed_forward_size,
            shape.max_context_tokens,
            int(shape.gelu_by_tanh),
            shape.norm_epsilon,
        )
