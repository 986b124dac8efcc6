"""How much the model's predictions change when one matrix alone is rounded to 4 bit.

All variants of the model, each with one rounded matrix, travel through the layers together: a
layer is read once, variants of earlier layers pass it as it is, and its own matrices add theirs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear, log_softmax

from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.progress import Bar
from edgelora.toolchain.quantisation.calibration import (
    embed,
    head_moments,
    observe_layer,
)
from edgelora.toolchain.quantisation.decoder import (
    final_norm,
    read_layer,
    read_tensor,
    rotary_table,
    run_layer,
)
from edgelora.toolchain.quantisation.error_compensation import damped, remaining_error
from edgelora.toolchain.quantisation.hidden_states import HiddenStates
from edgelora.toolchain.quantisation.kinds import INT4, KINDS, Kind
from edgelora.toolchain.quantisation.products import EMBEDDING, HEAD, SITES, tensor_name
from edgelora.toolchain.quantisation.rounding import round_plainly

_SAMPLED_ROWS = 96
"""Rows of a matrix by which kinds are compared."""
_HEAD_ROWS = 8192
_MOMENT_WINDOWS = 16


class Sensitivity:
    """What is measured."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.divergence: dict[str, float] = {}
        """KL divergence in nats a token when only this matrix is 4-bit, by Hugging Face name."""
        self.ratios: dict[str, dict[Kind, float]] = {}
        """Squared output error of each kind as a share of INT4's, by Hugging Face name."""
        self.remaining: dict[str, float] = {}
        """The share of the divergence that is left when errors are made up for, by name."""


@torch.no_grad()
def measure(source: ModelSource, windows: Tensor, calibration: Tensor, bar: Bar) -> Sensitivity:
    """Measures every matrix on `windows` (int64 [windows, tokens]). `bar` counts layers.

    How far errors can be made up for follows from some of the windows of `calibration`.
    """
    shape = source.shape
    count, tokens = windows.shape
    matrices = [module for modules in SITES.values() for module in modules]
    found = Sensitivity()
    rotary = rotary_table(shape, tokens)
    names = ["", EMBEDDING]
    variants = 2 + shape.num_layers * len(matrices)
    calibration = calibration[:_MOMENT_WINDOWS]
    long_rotary = rotary_table(shape, calibration.shape[1])
    with (
        HiddenStates(variants * count, tokens, shape.hidden_size) as states,
        HiddenStates(len(calibration), calibration.shape[1], shape.hidden_size) as typical,
    ):
        embed(source, windows, states)
        embed(source, calibration, typical)
        exact = states.read(slice(0, count))
        states.write(slice(count, 2 * count), _rounded_rows(exact))
        found.ratios[EMBEDDING] = _ratios(exact.flatten(0, 1), torch.ones(shape.hidden_size))
        for layer in range(shape.num_layers):
            weights = read_layer(source, layer)
            moments = observe_layer(shape, weights, typical, long_rotary, moves=True)
            exact = states.read(slice(0, count))
            added = len(names)
            for site, modules in SITES.items():
                hessian = damped(moments.pop(site))
                importance = hessian.diagonal()
                remaining = remaining_error(hessian)
                for module in modules:
                    name = tensor_name(layer, module)
                    key = name.removeprefix(f"model.layers.{layer}.")
                    found.ratios[name] = _ratios(weights[key], importance)
                    found.remaining[name] = remaining
                    rounded = round_plainly(weights[key], INT4, importance).weights()
                    changed = run_layer(shape, {**weights, key: rounded}, exact, rotary)
                    at = len(names) * count
                    states.write(slice(at, at + count), changed)
                    names.append(name)
            for batch in states.batches(0, added * count):
                states.write(batch, run_layer(shape, weights, states.read(batch), rotary))
            bar.advance(1)
        _compare(source, states, count, names, damped(head_moments(source, typical)), found)
    bar.advance(1)
    return found


def _compare(
    source: ModelSource,
    states: HiddenStates,
    count: int,
    names: list[str],
    hessian: Tensor,
    found: Sensitivity,
) -> None:
    """Fills in divergences: reads what each variant predicts."""
    shape = source.shape
    head = read_tensor(source, EMBEDDING if shape.tied_embeddings else HEAD)
    norm = read_tensor(source, "model.norm.weight")

    def read(number: int) -> Tensor:
        hidden = states.read(slice(number * count, (number + 1) * count)).flatten(0, 1)
        return final_norm(shape, norm, hidden)

    inputs = read(0)
    expected = log_softmax(linear(inputs, head), -1)
    importance = hessian.diagonal()

    def with_rounded_head(x: Tensor) -> Tensor:
        pieces = (round_plainly(rows, INT4, importance) for rows in torch.split(head, _HEAD_ROWS))
        return torch.cat([linear(x, piece.weights()) for piece in pieces], -1)

    for number, name in enumerate(names):
        if name:
            predicted = log_softmax(linear(read(number), head), -1)
            found.divergence[name] = _divergence(expected, predicted)
    looked_up = found.divergence[EMBEDDING]
    read_off = _divergence(expected, log_softmax(with_rounded_head(inputs), -1))
    remaining = remaining_error(hessian)
    if shape.tied_embeddings:
        # Divergences add up. What is looked up is rounded plainly, whatever the head reads.
        found.divergence[EMBEDDING] = both = looked_up + read_off
        found.remaining[EMBEDDING] = (looked_up + read_off * remaining) / max(both, 1e-30)
    else:
        found.remaining[EMBEDDING] = 1.0
        found.divergence[HEAD] = read_off
        found.remaining[HEAD] = remaining
        found.ratios[HEAD] = _ratios(head, importance)


def _divergence(expected: Tensor, predicted: Tensor) -> float:
    """Mean KL divergence of rows of log probabilities; fp32 does not make it negative."""
    return max(0.0, float((expected.exp() * (expected - predicted)).sum(-1).mean()))


def _rounded_rows(rows: Tensor) -> Tensor:
    return round_plainly(rows.flatten(0, 1), INT4).weights().view_as(rows)


def _ratios(weights: Tensor, importance: Tensor) -> dict[Kind, float]:
    rows = weights[:: max(1, len(weights) // _SAMPLED_ROWS)]
    errors = {
        kind: float(
            ((rows - round_plainly(rows, kind, importance).weights()).square() * importance).sum()
        )
        for kind in KINDS
    }
    return {kind: error / max(errors[INT4], 1e-30) for kind, error in errors.items()}
