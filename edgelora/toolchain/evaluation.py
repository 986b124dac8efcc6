"""How well a model, with or without its adapter, does on data it was not trained on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from edgelora.toolchain.batches import batches_by_length
from edgelora.toolchain.chat_data import IGNORED, Conversation, Example
from edgelora.toolchain.progress import progress_bar

_EVALUATION_TOKENS = 2048


def pad(examples: Sequence[Example], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels, int64 [examples, longest], padded on the right.

    A causal model never looks right, so the padding needs no mask.
    """
    longest = max(len(example.token_ids) for example in examples)
    ids = torch.full((len(examples), longest), pad_id)
    labels = torch.full((len(examples), longest), IGNORED)
    for row, example in enumerate(examples):
        ids[row, : len(example.token_ids)] = torch.tensor(example.token_ids)
        labels[row, : len(example.labels)] = torch.tensor(example.labels)
    return ids, labels


def assistant_loss(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Sum of the cross entropy over the labelled tokens, in nats, fp32.

    The output head runs on those positions only: on short answers it is most of the arithmetic.
    """
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    ids, labels = ids.to(causal.device), labels.to(causal.device)
    hidden = causal.model(ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = labels[:, 1:]
    chosen = wanted != IGNORED
    logits = causal.lm_head(hidden[chosen]).float()
    return functional.cross_entropy(logits, wanted[chosen], reduction="sum")


@torch.no_grad()
def held_out_loss(model: Any, examples: Sequence[Example], pad_id: int) -> float:
    """Mean cross entropy in nats over every assistant token of `examples`."""
    model.eval()
    total = 0.0
    lengths = [len(example.token_ids) for example in examples]
    for batch in batches_by_length(lengths, _EVALUATION_TOKENS, random.Random(0)):  # noqa: S311
        ids, labels = pad([examples[index] for index in batch], pad_id)
        total += float(assistant_loss(model, ids, labels))
    return total / sum(example.loss_tokens for example in examples)


@torch.no_grad()
def greedy_answers(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Conversation],
    *,
    max_new_tokens: int,
    title: str,
    batch_size: int = 16,
) -> list[str]:
    """What the model answers to each conversation, always taking the likeliest token."""
    model.eval()
    tokenizer.padding_side = "left"
    answers: list[str] = []
    with progress_bar(title, len(prompts)) as bar:
        for start in range(0, len(prompts), batch_size):
            batch = prompts[start : start + batch_size]
            texts = [
                tokenizer.apply_chat_template(one, tokenize=False, add_generation_prompt=True)
                for one in batch
            ]
            inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
            inputs = inputs.to(model.device)
            output = model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                max_new_tokens=max_new_tokens,
                do_sample=False,
                pad_token_id=tokenizer.pad_token_id,
            )
            new = output[:, inputs["input_ids"].shape[1] :]
            answers += tokenizer.batch_decode(new, skip_special_tokens=True)
            bar.advance(len(batch))
    return answers
