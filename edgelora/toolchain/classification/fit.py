"""The training steps of a classifier.

The head starts with the mean vector of each label's texts (a nearest-mean classifier, which is
right nine times in ten already), so that the encoder is taught from the first step by errors that
mean something. Batches hold texts of like length, drawn from all labels. What is kept is a running
average of the weights (Polyak averaging), which is worth more than the last ones.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from edgelora.toolchain.batches import learning_rate_share
from edgelora.toolchain.classification.model import EncoderClassifier
from edgelora.toolchain.classification.options import ClassificationOptions
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.progress import progress_bar

_CURVE_POINTS = 40
_SORTED_BATCHES = 16
"""Batches whose texts are sorted by length together."""
_MAX_GRAD_NORM = 1.0
_LAYER = re.compile(r"\.layer\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Sample:
    """A text as it is trained on."""

    token_ids: NDArray[np.int32]
    number: int
    """Of its label, see scope.py."""


def fit(
    model: EncoderClassifier,
    samples: Sequence[Sample],
    options: ClassificationOptions,
    *,
    num_labels: int,
) -> list[tuple[int, float]]:
    """Trains in place; returns (step, mean loss in nats since the entry before).

    Raises ToolchainError when the loss is no number any more.
    """
    vectors = start_head(model, samples, options.head_scale)
    groups = _parameter_groups(model, options)
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99), fused=True)
    peaks = [group["lr"] for group in optimizer.param_groups]
    trained = [parameter for group in groups for parameter in group["params"]]
    average = [parameter.detach().clone() for parameter in trained]
    order = random.Random(options.seed)  # noqa: S311 - shuffling, no secret
    batches = [
        batch
        for _ in range(options.epochs)
        for batch in draw_batches(samples, options, num_labels, order)
    ]
    curve: list[tuple[int, float]] = []
    losses: list[float] = []
    is_frozen = not model.encoder_parameters
    model.train()
    with progress_bar("Training", len(batches)) as bar:
        for step, batch in enumerate(batches):
            share = learning_rate_share(step, len(batches), options.warmup_share, "cosine")
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * share
            if is_frozen:
                batch_vectors = vectors[batch]
            else:
                batch_vectors = model.vectors([samples[index].token_ids for index in batch])
            loss = functional.cross_entropy(
                model.head(batch_vectors),
                torch.tensor([samples[index].number for index in batch]),
                label_smoothing=options.label_smoothing,
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(trained, _MAX_GRAD_NORM)
            optimizer.step()
            kept = min(options.averaging, (1 + step) / (10 + step))
            values = [parameter.data for parameter in trained]
            torch._foreach_lerp_(average, values, 1 - kept)
            losses.append(float(loss.detach()))
            if not np.isfinite(losses[-1]):
                raise ToolchainError(
                    f"training diverged in step {step + 1}: lower the learning rate"
                )
            bar.advance(1, f"loss {losses[-1]:.3f}")
            if (step + 1) % max(1, len(batches) // _CURVE_POINTS) == 0 or step + 1 == len(batches):
                curve.append((step + 1, round(sum(losses) / len(losses), 4)))
                losses = []
    if options.averaging:
        for parameter, value in zip(trained, average, strict=True):
            parameter.data.copy_(value)
    return curve


def start_head(model: EncoderClassifier, samples: Sequence[Sample], scale: float) -> torch.Tensor:
    """Points each row of the head to the mean of its label's vectors, with length `scale`.

    Returns the vectors, which stay what they are where the head alone is trained.
    """
    vectors = model.encode([one.token_ids for one in samples]).clone()
    layer = model.head_layer
    sums = torch.zeros_like(layer.weight)
    sums.index_add_(0, torch.tensor([one.number for one in samples]), vectors)
    with torch.no_grad():
        layer.weight.copy_(scale * functional.normalize(sums, dim=-1))
        layer.bias.zero_()
    return vectors


def draw_batches(
    samples: Sequence[Sample],
    options: ClassificationOptions,
    num_labels: int,
    order: random.Random,
) -> list[list[int]]:
    """The batches of one epoch, as indices: little padding, and labels as they come."""
    drawn = list(range(len(samples)))
    outside = [index for index in drawn if samples[index].number == num_labels]
    drawn += outside * (options.out_of_scope_weight - 1)
    order.shuffle(drawn)
    size, span = options.batch_size, options.batch_size * _SORTED_BATCHES
    batches: list[list[int]] = []
    for start in range(0, len(drawn), span):
        part = sorted(drawn[start : start + span], key=lambda index: len(samples[index].token_ids))
        batches += [part[first : first + size] for first in range(0, len(part), size)]
    order.shuffle(batches)
    return batches


def _parameter_groups(
    model: EncoderClassifier, options: ClassificationOptions
) -> list[dict[str, Any]]:
    """The head at a rate of its own; layers below at lower rates, norms and biases undecayed."""
    by_setting: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    parameters = model.encoder_parameters
    layers = [number for name in parameters if (number := _layer(name)) is not None]
    top = max(layers, default=0)
    for name, parameter in parameters.items():
        layer = _layer(name)
        depth = top + 1 if layer is None else top - layer
        is_decayed = parameter.ndim > 1 and layer is not None
        rate = options.learning_rate * options.layer_decay**depth
        setting = (rate, options.weight_decay if is_decayed else 0.0)
        by_setting.setdefault(setting, []).append(parameter)
    head = [one for one in model.head.parameters() if one.requires_grad]
    return [
        {"params": head, "lr": options.head_learning_rate, "weight_decay": 0.0},
        *(
            {"params": members, "lr": rate, "weight_decay": decay}
            for (rate, decay), members in by_setting.items()
        ),
    ]


def _layer(name: str) -> int | None:
    """The layer that a parameter belongs to; None for the embeddings."""
    match = _LAYER.search(name)
    return None if match is None else int(match[1])
