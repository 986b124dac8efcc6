"""Rounds every product of a model in turn, each with the inputs it gets behind those before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from edgelora.toolchain.model_source import ModelSource, check_finite
from edgelora.toolchain.progress import Bar
from edgelora.toolchain.quantisation.calibration import (
    advance,
    embed,
    head_moments,
    observe_layer,
)
from edgelora.toolchain.quantisation.decoder import (
    as_tensor,
    read_layer,
    rotary_table,
)
from edgelora.toolchain.quantisation.error_compensation import DAMPING, Compensation, damped
from edgelora.toolchain.quantisation.hidden_states import HiddenStates
from edgelora.toolchain.quantisation.kinds import Kind
from edgelora.toolchain.quantisation.products import EMBEDDING, HEAD, layer_products
from edgelora.toolchain.quantisation.rounding import Rounded, round_plainly, stack
from edgelora.toolchain.quantisation.workers import Workers

_PIECE_ROWS = 4096
_TIED_DAMPING = 0.1
"""Of a head that is also the embedding, whose rows are read one by one: they must stay close."""


@torch.no_grad()
def round_model(
    source: ModelSource, windows: Tensor, kinds: Mapping[str, Kind], workers: Workers, bar: Bar
) -> dict[str, Rounded]:
    """Returns the matrices of the products in `kinds` rounded, by Hugging Face name.

    Other products stay exact. `windows`: int64 [windows, tokens]. `bar` counts layers.
    """
    shape = source.shape
    rounded: dict[str, Rounded] = {}
    rotary = rotary_table(shape, windows.shape[1])
    if not shape.tied_embeddings and "embedding" in kinds:
        kind = kinds["embedding"]
        pieces = workers.map(lambda rows: round_plainly(rows, kind), _pieces(source, EMBEDDING))
        rounded[EMBEDDING] = stack(list(pieces))
    with HiddenStates(len(windows), windows.shape[1], shape.hidden_size) as states:
        table = rounded[EMBEDDING].weights() if EMBEDDING in rounded else None
        embed(source, windows, states, table=table)
        for layer in range(shape.num_layers):
            weights = read_layer(source, layer)
            moments = observe_layer(shape, weights, states, rotary, workers)
            for product in layer_products(shape, layer):
                if product.name not in kinds:
                    continue
                compensation = Compensation(damped(moments.pop(product.site)))
                for name in product.tensors:
                    key = name.removeprefix(f"model.layers.{layer}.")
                    kind = kinds[product.name]
                    rounded[name] = compensation.round(weights[key], kind, workers)
                    weights[key] = rounded[name].weights()
            advance(shape, weights, states, rotary, workers)
            bar.advance(1)
        name, product_name = (EMBEDDING, "embedding") if shape.tied_embeddings else (HEAD, "head")
        if product_name in kinds:
            damping = _TIED_DAMPING if shape.tied_embeddings else DAMPING
            compensation = Compensation(damped(head_moments(source, states, workers), damping))
            rounded[name] = stack(
                [
                    compensation.round(rows, kinds[product_name], workers)
                    for rows in _pieces(source, name)
                ]
            )
        bar.advance(1)
    return rounded


def _pieces(source: ModelSource, name: str) -> Iterator[Tensor]:
    """The rows of a matrix, some at a time: a vocabulary in fp32 can be gigabytes."""
    for start in range(0, source.tensors[name].shape[0], _PIECE_ROWS):
        values = source.tensors[name].float32(slice(start, start + _PIECE_ROWS))
        check_finite(name, values)
        yield as_tensor(values)
