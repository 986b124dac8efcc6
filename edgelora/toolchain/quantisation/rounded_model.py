"""Rounds every product of a model in turn, each with the inputs it gets behind those before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from edgelora.toolchain.model_source import ModelSource, check_finite
from edgelora.toolchain.progress import Bar
from edgelora.toolchain.quantisation.calibration import Moments, advance, embed, observe_layer
from edgelora.toolchain.quantisation.decoder import (
    final_norm,
    read_layer,
    read_tensor,
    rotary_table,
)
from edgelora.toolchain.quantisation.error_compensation import damped, round_compensated
from edgelora.toolchain.quantisation.hidden_states import HiddenStates
from edgelora.toolchain.quantisation.kinds import Kind
from edgelora.toolchain.quantisation.products import EMBEDDING, HEAD, layer_products
from edgelora.toolchain.quantisation.rounding import Rounded, round_plainly, stack

_PIECE_ROWS = 4096
_TIED_DAMPING = 0.1
"""Of a head that is also the embedding, whose rows are read one by one: they must stay close."""


@torch.no_grad()
def round_model(
    source: ModelSource, windows: Tensor, kinds: Mapping[str, Kind], bar: Bar
) -> dict[str, Rounded]:
    """Returns the matrices of the products in `kinds` rounded, by Hugging Face name.

    Other products stay exact. `windows`: int64 [windows, tokens]. `bar` counts layers.
    """
    shape = source.shape
    rounded: dict[str, Rounded] = {}
    rotary = rotary_table(shape, windows.shape[1])
    if not shape.tied_embeddings and "embedding" in kinds:
        rounded[EMBEDDING] = stack(
            [round_plainly(rows, kinds["embedding"]) for rows in _pieces(source, EMBEDDING)]
        )
    sizes = (*windows.shape, shape.hidden_size)
    with HiddenStates(*sizes) as exact, HiddenStates(*sizes) as actual:
        embed(source, windows, exact, actual)
        if EMBEDDING in rounded:
            embed(source, windows, actual, table=rounded[EMBEDDING].weights())
        for layer in range(shape.num_layers):
            weights = read_layer(source, layer)
            moments = observe_layer(shape, weights, exact, actual, rotary)
            for product in layer_products(shape, layer):
                if product.name not in kinds:
                    continue
                hessian, cross = _prepared(moments, product.site, None)
                for name in product.tensors:
                    key = name.removeprefix(f"model.layers.{layer}.")
                    target = _target(weights[key], hessian, cross)
                    rounded[name] = round_compensated(target, hessian, kinds[product.name])
                    weights[key] = rounded[name].weights()
            advance(shape, weights, actual, rotary)
            bar.advance(1)
        name, product_name = (EMBEDDING, "embedding") if shape.tied_embeddings else (HEAD, "head")
        if product_name in kinds:
            moments = _head_moments(source, exact, actual)
            damping = _TIED_DAMPING if shape.tied_embeddings else None
            hessian, cross = _prepared(moments, "head", damping)
            rounded[name] = stack(
                [
                    round_compensated(_target(rows, hessian, cross), hessian, kinds[product_name])
                    for rows in _pieces(source, name)
                ]
            )
        bar.advance(1)
    return rounded


def _prepared(moments: Moments, site: str, damping: float | None) -> tuple[Tensor, Tensor]:
    """Second moments that can be inverted, and the cross moments that go with them."""
    actual = moments.actual[site]
    hessian = damped(actual) if damping is None else damped(actual, damping)
    return hessian, moments.cross[site] + (hessian - actual)


def _target(weights: Tensor, hessian: Tensor, cross: Tensor) -> Tensor:
    """The weights that come closest to the exact outputs from the inputs there are (GPTAQ).

    Least squares: W X X'^T (X' X'^T)^-1 for exact inputs X and actual ones X' (arXiv 2504.02692).
    """
    solved: Tensor = torch.linalg.solve(hessian, (weights @ cross).T).T.contiguous()
    return solved


def _head_moments(source: ModelSource, exact: HiddenStates, actual: HiddenStates) -> Moments:
    norm = read_tensor(source, "model.norm.weight")
    moments = Moments()
    for batch in exact.batches():
        expected = final_norm(source.shape, norm, exact.read(batch))
        inputs = final_norm(source.shape, norm, actual.read(batch))
        moments.add({"head": expected}, {"head": inputs})
    return moments


def _pieces(source: ModelSource, name: str) -> Iterator[Tensor]:
    """The rows of a matrix, some at a time: a vocabulary in fp32 can be gigabytes."""
    for start in range(0, source.tensors[name].shape[0], _PIECE_ROWS):
        values = source.tensors[name].float32(slice(start, start + _PIECE_ROWS))
        check_finite(name, values)
        yield torch.from_numpy(values)
