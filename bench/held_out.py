"""How well an adapter foretells conversations it was not trained on, beside another form of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format import AdapterWeights
from edgelora.toolchain.chat_data import IGNORED, Example, encode, read_conversations
from services.adapter_store.verification.divergence import divergences
from services.adapter_store.verification.measured_model import MeasuredModel
from services.adapter_store.verification.probes import TokenSequence

_MAX_TOKENS = 1024
"""Of one conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One form of an adapter on held-out conversations, every token given the right ones before."""

    loss: float
    """Mean cross entropy of the assistant's tokens, in nats."""
    accuracy: float
    """Share of the assistant's tokens that were the likeliest."""
    exact: float
    """Share of conversations of which all were: what greedy decoding answers word for word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Two forms on the same tokens."""

    original: Quality
    other: Quality
    mean_kl: float
    """Divergence of the other's distribution from the original's, in nats."""
    agreement: float
    """Share of tokens for which both have the same likeliest one."""


def read_held_out(file: Path, model_directory: Path, max_tokens: int) -> list[Example]:
    """The first conversations of a file, until they have `max_tokens` tokens of the assistant."""
    # Only here: it imports torch.
    from edgelora.toolchain.lora_model import load_tokenizer

    tokenizer = load_tokenizer(model_directory)
    examples: list[Example] = []
    for number, conversation in enumerate(read_conversations(file), start=1):
        if sum(example.loss_tokens for example in examples) >= max_tokens:
            break
        where = f"{file.name}, line {number}"
        examples.append(encode(conversation, tokenizer, max_tokens=_MAX_TOKENS, where=where))
    return examples


def compare(
    model: MeasuredModel,
    examples: Sequence[Example],
    original: AdapterWeights,
    other: AdapterWeights,
) -> Beside:
    """Runs both forms beside each other, in slots 0 and 1, which it leaves empty."""
    model.load(0, original)
    model.load(1, other)
    try:
        return _compare(model, examples)
    finally:
        model.unload(0)
        model.unload(1)


def _compare(model: MeasuredModel, examples: Sequence[Example]) -> Beside:
    given = [_first_label(example) for example in examples]
    sequences = [
        TokenSequence(example.token_ids, first)
        for example, first in zip(examples, given, strict=True)
    ]
    places = list(given)
    losses: list[NDArray[np.float64]] = []
    right: list[NDArray[np.bool_]] = []
    owners: list[int] = []
    kl: list[float] = []
    agreed = 0
    for ready, following, logits in model.foretell(sequences, (0, 1)):
        counted = [examples[i].labels[places[i]] != IGNORED for i in ready]
        for i in ready:
            places[i] += 1
        if not any(counted):
            continue
        rows, wanted = logits[counted], following[counted]
        best = rows.argmax(axis=2)
        losses.append(_losses(rows, wanted))
        right.append(best == wanted[:, np.newaxis])
        owners += [i for i, is_counted in zip(ready, counted, strict=True) if is_counted]
        kl += divergences(rows[:, 0], rows[:, 1]).tolist()
        agreed += int((best[:, 0] == best[:, 1]).sum())
    loss, hits = np.concatenate(losses), np.concatenate(right)
    misses = np.stack([np.bincount(owners, ~hits[:, form], len(examples)) for form in (0, 1)])
    first, second = (
        Quality(
            loss=float(loss[:, form].mean()),
            accuracy=float(hits[:, form].mean()),
            exact=float((misses[form] == 0).mean()),
        )
        for form in (0, 1)
    )
    return Beside(
        original=first, other=second, mean_kl=float(np.mean(kl)), agreement=agreed / len(kl)
    )


def _first_label(example: Example) -> int:
    return next(place for place, label in enumerate(example.labels) if label != IGNORED)


def _losses(rows: NDArray[np.float32], wanted: NDArray[np.int32]) -> NDArray[np.float64]:
    """-log p of the wanted tokens, [rows, forms]; `rows`: logits, [rows, forms, vocab_size]."""
    top = rows.max(axis=2)
    sums = np.exp(rows - top[:, :, np.newaxis]).sum(axis=2, dtype=np.float64)
    chosen = np.take_along_axis(rows, wanted[:, np.newaxis, np.newaxis], axis=2)[:, :, 0]
    losses: NDArray[np.float64] = np.log(sums) + top - chosen
    return losses
