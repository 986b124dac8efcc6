"""Writes a model as the packed file that the native core maps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from edgelora_native.matrices import (
    LANES,
    Matrix,
    Matrix4,
    concatenate,
    pad_rows,
    quantise4,
    quantise8,
)
from edgelora_native.packing import Layer, ModelShape, write_packed
from numpy.typing import NDArray

from edgelora.toolchain.decoder_shape import DecoderShape
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_blocks import keep_blocks
from edgelora.toolchain.model_source import ModelSource, SourceTensor, check_finite
from edgelora.toolchain.progress import Bar

_PIECE_ROWS = 4096
"""Rows quantised at a time: a vocabulary in fp32 can be gigabytes."""


def packed_shape(shape: DecoderShape) -> ModelShape:
    """The sizes of the packed file. Raises ToolchainError for a shape the core does not serve."""
    try:
        return ModelShape(
            vocab_size=-(-shape.vocab_size // LANES) * LANES,
            hidden_size=shape.hidden_size,
            num_layers=shape.num_layers,
            num_heads=shape.num_heads,
            num_kv_heads=shape.num_kv_heads,
            head_size=shape.head_dim,
            feed_forward_size=shape.intermediate_size,
            max_context_tokens=shape.max_context_tokens,
            norm_epsilon=shape.rms_norm_eps,
            attention_factor=shape.rotary().attention_factor,
        )
    except ValueError as error:
        raise ToolchainError(
            f"the native core cannot serve this model ({error}): prepare it with --weights float32"
        ) from error


def write_native(path: Path, source: ModelSource, bar: Bar) -> None:
    """Writes the packed file and syncs it to disk; one layer is in memory at a time.

    4-bit groups of 32 (Q4_0, Q4_1, Q4_K) and Q8_0 stay as they are. Of everything else query, key,
    value, head and embedding become 8-bit, the other matrices 4-bit. The vocabulary is padded with
    zero rows to a multiple of 16: whoever reads logits drops what is beyond the model's own.

    `bar` counts values. Raises ToolchainError for a shape the core does not serve, and for values
    that are not finite.
    """
    writer = _Writer(source, bar)
    shape = source.shape
    head = writer.matrix(
        "model.embed_tokens.weight" if shape.tied_embeddings else "lm_head.weight", 8
    )
    write_packed(
        path,
        packed_shape(shape),
        head=pad_rows(head),
        final_norm=writer.vector("model.norm.weight"),
        embedding=(
            None
            if shape.tied_embeddings
            else pad_rows(writer.matrix("model.embed_tokens.weight", 8))
        ),
        inverse_frequencies=shape.rotary().inverse.astype(np.float32),
        layers=writer.layers(),
    )
    with path.open("rb") as file:
        os.fsync(file.fileno())


class _Writer:
    def __init__(self, source: ModelSource, bar: Bar) -> None:
        self._source = source
        self._bar = bar

    def layers(self) -> Iterator[Layer]:
        shape = self._source.shape
        for number in range(shape.num_layers):
            prefix = f"model.layers.{number}."
            attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
            yield Layer(
                attention_norm=self.vector(f"{prefix}input_layernorm.weight"),
                query=self.matrix(f"{attention}q_proj.weight", 8),
                key=self.matrix(f"{attention}k_proj.weight", 8),
                value=self.matrix(f"{attention}v_proj.weight", 8),
                output=self.matrix(f"{attention}o_proj.weight", 4),
                feed_forward_norm=self.vector(f"{prefix}post_attention_layernorm.weight"),
                gate=self.matrix(f"{mlp}gate_proj.weight", 4),
                up=self.matrix(f"{mlp}up_proj.weight", 4),
                down=self.matrix(f"{mlp}down_proj.weight", 4),
                qkv_bias=(
                    np.concatenate([self.vector(f"{attention}{one}_proj.bias") for one in "qkv"])
                    if shape.has_qkv_bias
                    else None
                ),
                query_norm=(
                    self.vector(f"{attention}q_norm.weight") if shape.has_qk_norm else None
                ),
                key_norm=self.vector(f"{attention}k_norm.weight") if shape.has_qk_norm else None,
            )

    def vector(self, name: str) -> NDArray[np.float32]:
        values = self._source.tensors[name].float32()
        check_finite(name, values)
        self._bar.advance(values.size)
        return values

    def matrix(self, name: str, bits: int) -> Matrix:
        tensor = self._source.tensors[name]
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            matrix = keep_blocks(tensor) or _quantised(name, tensor, bits)
        check_finite(name, matrix.scale)
        if isinstance(matrix, Matrix4):
            check_finite(name, matrix.minimum)
        self._bar.advance(tensor.shape[0] * tensor.shape[1])
        return matrix


def _quantised(name: str, tensor: SourceTensor, bits: int) -> Matrix:
    quantise = quantise8 if bits == 8 else quantise4
    pieces: list[Matrix] = []
    for start in range(0, tensor.shape[0], _PIECE_ROWS):
        values = tensor.float32(slice(start, start + _PIECE_ROWS))
        check_finite(name, values)
        if np.abs(values).max() > np.finfo(np.float16).max:
            raise ToolchainError(f"tensor {name} holds values beyond half precision: not supported")
        pieces.append(quantise(values))
    return concatenate(pieces)
