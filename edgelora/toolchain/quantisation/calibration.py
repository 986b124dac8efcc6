"""What the inputs of a layer's products look like, over all calibration windows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from edgelora.toolchain.decoder_shape import DecoderShape
from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.quantisation.decoder import (
    Rotary,
    as_tensor,
    final_norm,
    read_tensor,
    run_layer,
)
from edgelora.toolchain.quantisation.hidden_states import HiddenStates
from edgelora.toolchain.quantisation.products import EMBEDDING
from edgelora.toolchain.quantisation.workers import Workers

_PIECE_ROWS = 4096


def embed(
    source: ModelSource, windows: Tensor, *states: HiddenStates, table: Tensor | None = None
) -> None:
    """Writes embedded `windows` (int64 [windows, tokens]) as the first of each of `states`.

    The source's table is read in pieces, or `table` is taken.
    """
    tokens, place = torch.unique(windows, return_inverse=True)
    rows = _rows(source, tokens) if table is None else table[tokens]
    for target in states:
        for batch in target.batches(0, len(windows)):
            target.write(batch, rows[place[batch]])


def observe_layer(
    shape: DecoderShape,
    weights: Mapping[str, Tensor],
    states: HiddenStates,
    rotary: Rotary,
    workers: Workers,
    *,
    moves: bool = False,
) -> dict[str, Tensor]:
    """Second moments of the inputs of a layer, [features, features], by site (`products.SITES`).

    `states` stay before the layer, or move behind it.
    """

    def observe(batch: slice) -> dict[str, Tensor]:
        inputs: dict[str, Tensor] = {}
        behind = run_layer(shape, weights, states.read(batch), rotary, inputs.__setitem__)
        # What is added to the residual stream is normalised before it is read. Tokens on which the
        # model parks attention can be a thousand times larger than others: they would be all that
        # counts.
        weight = behind.square().mean(-1, keepdim=True).rsqrt()
        for site in ("output", "down"):
            inputs[site] = inputs[site] * weight
        if moves:
            states.write(batch, behind)
        return {site: _moments(values) for site, values in inputs.items()}

    summed: dict[str, Tensor] = {}
    for found in workers.map(observe, states.batches()):
        for site, moments in found.items():
            summed[site] = summed[site].add_(moments) if site in summed else moments
    return summed


def head_moments(source: ModelSource, states: HiddenStates, workers: Workers) -> Tensor:
    """Second moments of what the head reads, [hidden_size, hidden_size]."""
    norm = read_tensor(source, "model.norm.weight")

    def observe(batch: slice) -> Tensor:
        return _moments(final_norm(source.shape, norm, states.read(batch)))

    return torch.stack(list(workers.map(observe, states.batches()))).sum(0)


def advance(
    shape: DecoderShape,
    weights: Mapping[str, Tensor],
    states: HiddenStates,
    rotary: Rotary,
    workers: Workers,
    stop: int | None = None,
) -> None:
    """Moves a stream, or its windows before `stop`, behind a layer."""

    def move(batch: slice) -> None:
        states.write(batch, run_layer(shape, weights, states.read(batch), rotary))

    for _ in workers.map(move, states.batches(0, stop)):
        pass


def _moments(inputs: Tensor) -> Tensor:
    rows = inputs.flatten(0, -2)
    return rows.T @ rows


def _rows(source: ModelSource, tokens: Tensor) -> Tensor:
    """Rows [tokens, hidden_size] of the embedding. `tokens`: sorted."""
    found = torch.empty(len(tokens), source.shape.hidden_size)
    for start in range(0, source.shape.vocab_size, _PIECE_ROWS):
        here = (tokens >= start) & (tokens < start + _PIECE_ROWS)
        if here.any():
            piece = source.tensors[EMBEDDING].float32(slice(start, start + _PIECE_ROWS))
            found[here] = as_tensor(piece)[tokens[here] - start]
    return found
