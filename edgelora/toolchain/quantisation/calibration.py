"""What the inputs of a layer's products look like, over all calibration windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from edgelora.toolchain.decoder_shape import DecoderShape
from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.quantisation.decoder import Rotary, run_layer
from edgelora.toolchain.quantisation.hidden_states import HiddenStates
from edgelora.toolchain.quantisation.products import EMBEDDING

_PIECE_ROWS = 4096


@dataclass(slots=True)
class Moments:
    """Second moments of the inputs of a layer, by site (`products.SITES`)."""

    actual: dict[str, Tensor] = field(default_factory=dict)
    """Of the inputs behind rounded layers, [features, features], summed over tokens."""
    cross: dict[str, Tensor] = field(default_factory=dict)
    """Inputs of the exact model (rows) times those behind rounded layers (columns)."""

    def add(self, exact: Mapping[str, Tensor], actual: Mapping[str, Tensor]) -> None:
        """Adds inputs of the same tokens, [..., features] by site."""
        for site, inputs in actual.items():
            rows = inputs.flatten(0, -2)
            _add(self.actual, site, rows.T @ rows)
            _add(self.cross, site, exact[site].flatten(0, -2).T @ rows)


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


@torch.no_grad()
def observe_layer(
    shape: DecoderShape,
    weights: Mapping[str, Tensor],
    exact: HiddenStates,
    actual: HiddenStates,
    rotary: Rotary,
) -> Moments:
    """Runs a layer as it is on both streams; moves the exact one behind it, not the actual one."""
    moments = Moments()
    for batch in exact.batches():
        expected: dict[str, Tensor] = {}
        inputs: dict[str, Tensor] = {}
        behind = run_layer(shape, weights, exact.read(batch), rotary, expected.__setitem__)
        run_layer(shape, weights, actual.read(batch), rotary, inputs.__setitem__)
        exact.write(batch, behind)
        moments.add(expected, inputs)
    return moments


@torch.no_grad()
def advance(
    shape: DecoderShape, weights: Mapping[str, Tensor], states: HiddenStates, rotary: Rotary
) -> None:
    """Moves a stream behind a layer."""
    for batch in states.batches():
        states.write(batch, run_layer(shape, weights, states.read(batch), rotary))


def _rows(source: ModelSource, tokens: Tensor) -> Tensor:
    """Rows [tokens, hidden_size] of the embedding. `tokens`: sorted."""
    found = torch.empty(len(tokens), source.shape.hidden_size)
    for start in range(0, source.shape.vocab_size, _PIECE_ROWS):
        here = (tokens >= start) & (tokens < start + _PIECE_ROWS)
        if here.any():
            piece = source.tensors[EMBEDDING].float32(slice(start, start + _PIECE_ROWS))
            found[here] = torch.from_numpy(piece)[tokens[here] - start]
    return found


def _add(sums: dict[str, Tensor], site: str, value: Tensor) -> None:
    sums[site] = sums[site] + value if site in sums else value
