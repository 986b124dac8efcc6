"""What rounding changed: perplexity before and after, and how far predictions moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, log_softmax

from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.progress import Bar
from edgelora.toolchain.quantisation.calibration import advance, embed
from edgelora.toolchain.quantisation.decoder import (
    final_norm,
    read_layer,
    read_tensor,
    rotary_table,
)
from edgelora.toolchain.quantisation.hidden_states import HiddenStates
from edgelora.toolchain.quantisation.products import EMBEDDING, HEAD
from edgelora.toolchain.quantisation.rounding import Rounded
from edgelora.toolchain.quantisation.workers import Workers

_CHUNK_TOKENS = 128
"""Tokens whose logits are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Over every token of the windows that has one before it."""

    tokens: int
    perplexity_before: float
    perplexity_after: float
    divergence: float
    """Mean KL divergence in nats of the rounded model's predictions from the exact ones."""


@torch.no_grad()
def compare(
    source: ModelSource, rounded: Mapping[str, Rounded], windows: Tensor, workers: Workers, bar: Bar
) -> Comparison:
    """Runs both models layer by layer on `windows` (int64 [windows, tokens]); `bar`: layers."""
    shape = source.shape
    rotary = rotary_table(shape, windows.shape[1])
    sizes = (*windows.shape, shape.hidden_size)
    with HiddenStates(*sizes) as exact, HiddenStates(*sizes) as actual:
        embed(source, windows, exact)
        table = rounded[EMBEDDING].weights() if EMBEDDING in rounded else None
        embed(source, windows, actual, table=table)
        for layer in range(shape.num_layers):
            weights = read_layer(source, layer)
            advance(shape, weights, exact, rotary, workers)
            prefix = f"model.layers.{layer}."
            for key in weights:
                if prefix + key in rounded:
                    weights[key] = rounded[prefix + key].weights()
            advance(shape, weights, actual, rotary, workers)
            bar.advance(1)
        name = EMBEDDING if shape.tied_embeddings else HEAD
        norm = read_tensor(source, "model.norm.weight")
        head = read_tensor(source, name)
        rounded_head = rounded[name].weights() if name in rounded else head

        def sums(number: int) -> Tensor:
            """Of one window: negative log likelihood before and after, and KL divergence."""
            window = slice(number, number + 1)
            before = final_norm(shape, norm, exact.read(window))[0, :-1]
            after = final_norm(shape, norm, actual.read(window))[0, :-1]
            found = torch.zeros(3, dtype=torch.float64)
            for start in range(0, len(before), _CHUNK_TOKENS):
                part = slice(start, start + _CHUNK_TOKENS)
                expected = log_softmax(linear(before[part], head), -1)
                predicted = log_softmax(linear(after[part], rounded_head), -1)
                wanted = windows[number, 1:][part][:, None]
                found[0] -= expected.gather(1, wanted).sum()
                found[1] -= predicted.gather(1, wanted).sum()
                found[2] += (expected.exp() * (expected - predicted)).sum()
            return found

        total = torch.stack(list(workers.map(sums, range(len(windows))))).sum(0)
        bar.advance(1)
    if not torch.isfinite(total).all():
        raise ArithmeticError("the predictions are no numbers")
    count = len(windows) * (windows.shape[1] - 1)
    before_nll, after_nll, divergence = (float(one) / count for one in total)
    return Comparison(count, math.exp(before_nll), math.exp(after_nll), max(0.0, divergence))
