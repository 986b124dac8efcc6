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
    source: ModelSource, rounded: Mapping[str, Rounded], windows: Tensor, bar: Bar
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
            advance(shape, weights, exact, rotary)
            prefix = f"model.layers.{layer}."
            for key in weights:
                if prefix + key in rounded:
                    weights[key] = rounded[prefix + key].weights()
            advance(shape, weights, actual, rotary)
            bar.advance(1)
        name = EMBEDDING if shape.tied_embeddings else HEAD
        norm = read_tensor(source, "model.norm.weight")
        head = read_tensor(source, name)
        sums = torch.zeros(3, dtype=torch.float64)
        rounded_head = rounded[name].weights() if name in rounded else head
        for window, ids in enumerate(windows):
            before = final_norm(shape, norm, exact.read(slice(window, window + 1)))[0, :-1]
            after = final_norm(shape, norm, actual.read(slice(window, window + 1)))[0, :-1]
            for start in range(0, len(ids) - 1, _CHUNK_TOKENS):
                part = slice(start, start + _CHUNK_TOKENS)
                expected = log_softmax(linear(before[part], head), -1)
                predicted = log_softmax(linear(after[part], rounded_head), -1)
                wanted = ids[1:][part][:, None]
                sums[0] -= expected.gather(1, wanted).sum()
                sums[1] -= predicted.gather(1, wanted).sum()
                sums[2] += (expected.exp() * (expected - predicted)).sum()
        bar.advance(1)
    count = len(windows) * (windows.shape[1] - 1)
    before_nll, after_nll, divergence = (float(one) / count for one in sums)
    return Comparison(count, math.exp(before_nll), math.exp(after_nll), max(0.0, divergence))
