"""The training steps of a classifier.

The head starts with the mean vector of each label's texts (a nearest-mean classifier, which is
right nine times in ten already), so that the encoder is taught from the first step by errors that
mean something. Batches hold texts of like length, drawn from all labels. What is kept is a running
average of the weights (Polyak averaging), which is worth more than the last ones.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from edgelora.toolchain.batches import learning_rate_share
from edgelora.toolchain.classification.model import EncoderClassifier
from edgelora.toolchain.classification.options import ClassificationOptions
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.interruption import Interruption
from edgelora.toolchain.progress import progress_bar
from edgelora.toolchain.training_checkpoint import CheckpointFile, State, refusing_damaged

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


class FitInterrupted(KeyboardInterrupt):
    """Ctrl-C after a step; the state is in the checkpoint."""


@dataclass(slots=True, kw_only=True)
class Fit:
    """What a run has done so far; when it ends, what it did."""

    step: int = 0
    """How many are done."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    """(step, mean loss in nats since the entry before)."""
    losses: list[float] = field(default_factory=list)
    """Since the last entry of the curve."""
    seconds: float = 0.0
    """By all processes together."""


def fit(
    model: EncoderClassifier,
    samples: Sequence[Sample],
    options: ClassificationOptions,
    *,
    num_labels: int,
    checkpoint: CheckpointFile | None = None,
) -> Fit:
    """Trains in place, from the state in `checkpoint` where there is one.

    Raises FitInterrupted after Ctrl-C or SIGTERM when there is a checkpoint, ToolchainError when
    the loss is no number any more.
    """
    model.start_training([one.token_ids for one in samples])
    state = checkpoint.load() if checkpoint else None
    is_frozen = not model.encoder_parameters
    if state is None or is_frozen:
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
    run = Fit()
    if state is not None:
        with refusing_damaged():
            _restore(state, run, optimizer, trained, average)
    curve_steps = max(1, len(batches) // _CURVE_POINTS)
    model.train()
    with progress_bar("Training", len(batches)) as bar, Interruption() as interruption:
        bar.advance(run.step)
        for batch in batches[run.step :]:
            started = time.monotonic()
            share = learning_rate_share(run.step, len(batches), options.warmup_share, "cosine")
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * share
            if is_frozen:
                drawn = [vectors[batch]]
            else:
                texts = [samples[index].token_ids for index in batch]
                drawn = [model.vectors(texts) for _ in range(2 if options.consistency else 1)]
            numbers = torch.tensor([samples[index].number for index in batch])
            loss = _loss([model.head(each) for each in drawn], numbers, options)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(trained, _MAX_GRAD_NORM)
            optimizer.step()
            kept = min(options.averaging, (1 + run.step) / (10 + run.step))
            values = [parameter.data for parameter in trained]
            torch._foreach_lerp_(average, values, 1 - kept)
            run.step += 1
            run.losses.append(float(loss.detach()))
            if not math.isfinite(run.losses[-1]):
                raise ToolchainError(
                    f"training diverged in step {run.step}: lower the learning rate"
                )
            bar.advance(1, f"loss {run.losses[-1]:.3f}")
            is_over = run.step == len(batches)
            if run.step % curve_steps == 0 or is_over:
                run.curve.append((run.step, round(sum(run.losses) / len(run.losses), 4)))
                run.losses = []
            run.seconds += time.monotonic() - started
            is_due = run.step % options.checkpoint_steps == 0 or is_over
            is_wanted = interruption.is_wanted
            if checkpoint and (is_due or is_wanted):
                checkpoint.save(_state(run, optimizer, trained, average))
            if is_wanted and not is_over:
                raise FitInterrupted
    if options.averaging:
        for parameter, value in zip(trained, average, strict=True):
            parameter.data.copy_(value)
    model.end_training()
    return run


def _loss(
    drawn: Sequence[torch.Tensor], numbers: torch.Tensor, options: ClassificationOptions
) -> torch.Tensor:
    """Of the logits of one draw of dropout, or of two that are to agree; in nats a text."""
    losses = [
        functional.cross_entropy(logits, numbers, label_smoothing=options.label_smoothing)
        for logits in drawn
    ]
    loss = torch.stack(losses).mean()
    if len(drawn) == 1:
        return loss
    one, other = (functional.log_softmax(logits, dim=-1) for logits in drawn)
    divergence = functional.kl_div(one, other, reduction="batchmean", log_target=True)
    divergence = divergence + functional.kl_div(other, one, reduction="batchmean", log_target=True)
    return loss + options.consistency * divergence / 2


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


def _state(
    run: Fit,
    optimizer: torch.optim.Optimizer,
    trained: Sequence[torch.nn.Parameter],
    average: Sequence[torch.Tensor],
) -> State:
    return {
        "run": asdict(run),
        "trained": [parameter.data for parameter in trained],
        "average": list(average),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
    }


def _restore(
    state: State,
    run: Fit,
    optimizer: torch.optim.Optimizer,
    trained: Sequence[torch.nn.Parameter],
    average: Sequence[torch.Tensor],
) -> None:
    for name, value in state["run"].items():
        setattr(run, name, value)
    for parameter, value in zip(trained, state["trained"], strict=True):
        parameter.data.copy_(value)
    for kept, value in zip(average, state["average"], strict=True):
        kept.copy_(value)
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
