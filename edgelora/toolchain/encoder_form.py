"""Writes an encoder as the packed file that the native core maps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from edgelora_native.encoder_packing import (
    EncoderLayer,
    EncoderShape,
    Linear,
    Norm,
    RowTable,
    write_packed_encoder,
)
from edgelora_native.matrices import Matrix8, quantise8
from numpy.typing import NDArray

from edgelora.toolchain.bert_shape import BertShape, module_name
from edgelora.toolchain.encoder_inputs import MeasuredInputs
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.model_source import EncoderSource, check_finite
from edgelora.toolchain.progress import Bar

_LARGEST = float(np.finfo(np.float16).max)


def write_native_encoder(path: Path, source: EncoderSource, bar: Bar) -> None:
    """Writes the packed file and syncs it to disk; one layer is in memory at a time.

    Matrices and words become 8-bit, in groups of 32; positions, norms and biases stay fp32. `bar`
    counts values. Raises ToolchainError for a shape the core does not serve, and for values that
    are not finite.
    """
    writer = _Writer(source, bar)
    shape = source.shape
    token_types = writer.array("embeddings.token_type_embeddings.weight")
    write_packed_encoder(
        path,
        packed_encoder_shape(shape),
        words=RowTable(writer.matrix("embeddings.word_embeddings.weight")),
        # A text is one segment, so that the first type's vector belongs to every position.
        positions=writer.array("embeddings.position_embeddings.weight") + token_types[0],
        embedding_norm=writer.norm("embeddings.LayerNorm"),
        pooler=writer.linear("pooler.dense") if shape.has_pooler else None,
        layers=writer.layers(),
    )
    with path.open("rb") as file:
        os.fsync(file.fileno())


def packed_encoder_shape(shape: BertShape) -> EncoderShape:
    """The sizes of the packed file. Raises ToolchainError for a shape the core does not serve."""
    try:
        return EncoderShape(
            vocab_size=shape.vocab_size,
            hidden_size=shape.hidden_size,
            num_layers=shape.num_layers,
            num_heads=shape.num_heads,
            feed_forward_size=shape.intermediate_size,
            max_context_tokens=shape.max_context_tokens,
            norm_epsilon=shape.layer_norm_eps,
            gelu_by_tanh=shape.activation == "gelu_new",
        )
    except ValueError as error:
        raise ToolchainError(
            f"the native core cannot serve this model ({error}): prepare it with --weights float32"
        ) from error


class _Writer:
    def __init__(self, source: EncoderSource, bar: Bar) -> None:
        self._source = source
        self._bar = bar

    def layers(self) -> Iterator[EncoderLayer]:
        inputs = MeasuredInputs(
            self._source.shape, lambda name: self._source.tensors[name].float32()
        )
        for number in range(self._source.shape.num_layers):
            prefix = f"encoder.layer.{number}."
            with np.errstate(all="ignore"):  # refused where it is packed
                factors, intermediate_factors = inputs.run_layer(number)
            yield EncoderLayer(
                factors=factors,
                query=self.linear(module_name(number, "query"), factors),
                key=self.linear(module_name(number, "key"), factors),
                value=self.linear(module_name(number, "value"), factors),
                attention_output=self.linear(module_name(number, "attention.output.dense")),
                attention_norm=self.norm(f"{prefix}attention.output.LayerNorm"),
                intermediate_factors=intermediate_factors,
                intermediate=self.linear(
                    module_name(number, "intermediate.dense"), intermediate_factors
                ),
                output=self.linear(module_name(number, "output.dense")),
                output_norm=self.norm(f"{prefix}output.LayerNorm"),
            )

    def linear(self, name: str, factors: NDArray[np.float32] | None = None) -> Linear:
        return Linear(self.matrix(f"{name}.weight", factors), self.array(f"{name}.bias"))

    def norm(self, name: str) -> Norm:
        return Norm(self.array(f"{name}.weight"), self.array(f"{name}.bias"))

    def matrix(self, name: str, factors: NDArray[np.float32] | None = None) -> Matrix8:
        values = self.array(name)
        if factors is not None:
            values = values / factors
        if np.abs(values).max() > _LARGEST:
            raise ToolchainError(f"tensor {name} holds values beyond half precision: not supported")
        return quantise8(values)

    def array(self, name: str) -> NDArray[np.float32]:
        values = self._source.tensors[name].float32()
        check_finite(name, values)
        self._bar.advance(values.size)
        return values
