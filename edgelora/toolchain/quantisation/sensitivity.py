"""How much the model's predictions change when one matrix alone is rounded to 4 bit.

All variants of the model, each with one rounded matrix, travel through the layers together: a
layer is read once, variants of earlier layers pass it as it is, and its own matrices add theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import linear, log_softmax

from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.progress import Bar
from edgelora.toolchain.quantisation.calibration import (
    advance,
    embed,
    head_moments,
    observe_layer,
)
from edgelora.toolchain.quantisation.decoder import (
    Rotary,
    final_norm,
    read_layer,
    read_tensor,
    rotary_table,
    run_layer,
)
from edgelora.toolchain.quantisation.error_compensation import Compensation, damped
from edgelora.toolchain.quantisation.hidden_states import HiddenStates
from edgelora.toolchain.quantisation.kinds import INT4, KINDS, Kind
from edgelora.toolchain.quantisation.products import EMBEDDING, HEAD, SITES, tensor_name
from edgelora.toolchain.quantisation.rounding import round_plainly
from edgelora.toolchain.quantisation.workers import Workers

_SAMPLED_ROWS = 96
"""Rows of a matrix by which kinds are compared."""
_HEAD_ROWS = 4096
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
def measure(
    source: ModelSource, windows: Tensor, calibration: Tensor, workers: Workers, bar: Bar
) -> Sensitivity:
    """Measures every matrix on `windows` (int64 [windows, tokens]). `bar` counts layers.

    How far errors can be made up for follows from some of the windows of `calibration`.
    """
    shape = source.shape
    calibration = calibration[:_MOMENT_WINDOWS]
    modules = sum(len(one) for one in SITES.values())
    variants = 2 + shape.num_layers * modules
    with (
        HiddenStates(variants * len(windows), windows.shape[1], shape.hidden_size) as states,
        HiddenStates(len(calibration), calibration.shape[1], shape.hidden_size) as typical,
    ):
        embed(source, windows, states)
        embed(source, calibration, typical)
        travel = _Travel(source, states, len(windows), workers)
        travel.begin()
        rotary = rotary_table(shape, windows.shape[1])
        long_rotary = rotary_table(shape, calibration.shape[1])
        for layer in range(shape.num_layers):
            weights = read_layer(source, layer)
            moments = observe_layer(shape, weights, typical, long_rotary, workers, moves=True)
            travel.pass_layer(layer, weights, moments, rotary)
            bar.advance(1)
        travel.compare(damped(head_moments(source, typical, workers)))
    bar.advance(1)
    return travel.found


class _Travel:
    """The variants on their way: each is some windows of `states`, the exact model the first."""

    def __init__(
        self, source: ModelSource, states: HiddenStates, count: int, workers: Workers
    ) -> None:
        self.found = Sensitivity()
        self._source = source
        self._states = states
        self._count = count
        self._workers = workers
        self._names = [EMBEDDING]
        """Of the variants behind the exact model."""

    def begin(self) -> None:
        """Adds the variant with a rounded embedding."""
        rows = self._read(0).flatten(0, 1)
        self._write(1, round_plainly(rows, INT4).weights())
        self.found.ratios[EMBEDDING] = _ratios(rows, torch.ones(rows.shape[1]))

    def pass_layer(
        self, layer: int, weights: Mapping[str, Tensor], moments: dict[str, Tensor], rotary: Rotary
    ) -> None:
        """Moves all variants behind a layer and adds those of its matrices."""
        shape, before = self._source.shape, 1 + len(self._names)
        exact = self._read(0)
        importance: dict[str, Tensor] = {}
        added: list[tuple[str, str]] = []
        for site, modules in SITES.items():
            hessian = damped(moments.pop(site))
            importance[site] = hessian.diagonal().clone()
            names = [tensor_name(layer, module) for module in modules]
            added += [(name, site) for name in names]
            self.found.remaining |= dict.fromkeys(names, Compensation(hessian).remaining_error)

        def vary(number: int) -> dict[Kind, float]:
            name, site = added[number]
            key = name.removeprefix(f"model.layers.{layer}.")
            rounded = round_plainly(weights[key], INT4, importance[site])
            self._write(
                before + number,
                run_layer(shape, {**weights, key: rounded.weights()}, exact, rotary),
            )
            return _ratios(weights[key], importance[site])

        ratios = self._workers.map(vary, range(len(added)))
        for (name, _), found in zip(added, ratios, strict=True):
            self.found.ratios[name] = found
            self._names.append(name)
        advance(shape, weights, self._states, rotary, self._workers, before * self._count)

    def compare(self, hessian: Tensor) -> None:
        """Fills in divergences. `hessian`: second moments of what the head reads."""
        shape, found = self._source.shape, self.found
        head = read_tensor(self._source, EMBEDDING if shape.tied_embeddings else HEAD)
        norm = read_tensor(self._source, "model.norm.weight")
        inputs = final_norm(shape, norm, self._read(0)).flatten(0, 1)
        expected = log_softmax(linear(inputs, head), -1)

        def diverge(number: int) -> float:
            hidden = final_norm(shape, norm, self._read(number)).flatten(0, 1)
            return _divergence(expected, log_softmax(linear(hidden, head), -1))

        numbers = range(1, 1 + len(self._names))
        found.divergence = dict(zip(self._names, self._workers.map(diverge, numbers), strict=True))

        def read_off(rows: Tensor) -> Tensor:
            return linear(inputs, round_plainly(rows, INT4, hessian.diagonal()).weights())

        pieces = self._workers.map(read_off, torch.split(head, _HEAD_ROWS))
        divergence = _divergence(expected, log_softmax(torch.cat(list(pieces), -1), -1))
        remaining = Compensation(hessian).remaining_error
        if shape.tied_embeddings:
            # Divergences add up. What is looked up is rounded plainly, whatever the head reads.
            looked_up = found.divergence[EMBEDDING]
            both = max(looked_up + divergence, 1e-30)
            found.divergence[EMBEDDING] = both
            found.remaining[EMBEDDING] = (looked_up + divergence * remaining) / both
        else:
            found.remaining[EMBEDDING] = 1.0
            found.divergence[HEAD] = divergence
            found.remaining[HEAD] = remaining
            found.ratios[HEAD] = _ratios(head, hessian.diagonal())

    def _read(self, variant: int) -> Tensor:
        return self._states.read(slice(variant * self._count, (variant + 1) * self._count))

    def _write(self, variant: int, states: Tensor) -> None:
        self._states.write(slice(variant * self._count, (variant + 1) * self._count), states)


def _divergence(expected: Tensor, predicted: Tensor) -> float:
    """Mean KL divergence of rows of log probabilities; fp32 does not make it negative."""
    return max(0.0, float((expected.exp() * (expected - predicted)).sum(-1).mean()))


def _ratios(weights: Tensor, importance: Tensor) -> dict[Kind, float]:
    rows = weights[:: max(1, len(weights) // _SAMPLED_ROWS)]
    errors = {
        kind: float(
            ((rows - round_plainly(rows, kind, importance).weights()).square() * importance).sum()
        )
        for kind in KINDS
    }
    return {kind: error / max(errors[INT4], 1e-30) for kind, error in errors.items()}
