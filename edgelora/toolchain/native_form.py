"""Writes a model as the packed file that the native core maps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from edgelora_native.matrices import LANES, Matrix, pad_rows
from edgelora_native.packing import Layer, ModelShape, write_packed
from numpy.typing import NDArray

from edgelora.toolchain.decoder_shape import DecoderShape
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.model_source import ModelSource, check_finite
from edgelora.toolchain.progress import Bar
from edgelora.toolchain.rounding import Rounding


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


def write_native(path: Path, source: ModelSource, rounding: Rounding, bar: Bar) -> None:
    """Writes the packed file and syncs it to disk; one layer is in memory at a time.

    The vocabulary is padded with zero rows to a multiple of 16: whoever reads logits drops what is
    beyond the model's own. Norms and biases stay fp32. `bar` counts values.

    Raises ToolchainError for a shape the core does not serve, and for values that are not finite.
    """
    writer = _Writer(source, rounding, bar)
    shape = source.shape
    embedding = "model.embed_tokens.weight"
    (head,) = writer.product(embedding if shape.tied_embeddings else "lm_head.weight")
    write_packed(
        path,
        packed_shape(shape),
        head=pad_rows(head),
        final_norm=writer.vector("model.norm.weight"),
        embedding=None if shape.tied_embeddings else pad_rows(writer.product(embedding)[0]),
        inverse_frequencies=shape.rotary().inverse.astype(np.float32),
        layers=writer.layers(),
    )
    with path.open("rb") as file:
        os.fsync(file.fileno())


class _Writer:
    def __init__(self, source: ModelSource, rounding: Rounding, bar: Bar) -> None:
        self._source = source
        self._rounding = rounding
        self._bar = bar

    def layers(self) -> Iterator[Layer]:
        shape = self._source.shape
        for number in range(shape.num_layers):
            prefix = f"model.layers.{number}."
            attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
            attention_norm = self.vector(f"{prefix}input_layernorm.weight")
            query, key, value = self.product(*(f"{attention}{one}_proj.weight" for one in "qkv"))
            (output,) = self.product(f"{attention}o_proj.weight")
            gate, up = self.product(f"{mlp}gate_proj.weight", f"{mlp}up_proj.weight")
            (down,) = self.product(f"{mlp}down_proj.weight")
            yield Layer(
                attention_norm=attention_norm,
                query=query,
                key=key,
                value=value,
                output=output,
                feed_forward_norm=self.vector(f"{prefix}post_attention_layernorm.weight"),
                gate=gate,
                up=up,
                down=down,
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

    def product(self, *names: str) -> list[Matrix]:
        matrices = self._rounding.matrices(self._source, names)
        self._bar.advance(sum(rows * columns for rows, columns in (m.shape for m in matrices)))
        return matrices
