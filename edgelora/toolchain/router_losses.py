"""The loss of every text under the base and each adapter, measured once and kept.

Base and adapters are frozen. The losses of an adapter are a JSON file, named after what they depend
on; a router that is trained again measures only texts and adapters that are new.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from torch.nn import functional

from edgelora.toolchain.batches import batches_by_length
from edgelora.toolchain.chat_data import IGNORED, Conversation, Example, encode
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.evaluation import pad
from edgelora.toolchain.lora_model import load_base, load_tokenizer
from edgelora.toolchain.progress import Bar, progress_bar
from edgelora.toolchain.published_directory import published_file
from edgelora.toolchain.router_sources import Source
from edgelora.toolchain.router_targets import Matrix
from edgelora.toolchain.train import prepared_base

_MAX_TOKENS = 1024
_BATCH_TOKENS = 2048
_SAVE_EVERY = 20
"""Batches between two writes, so that an interrupted measurement loses little."""


def measuring_precision() -> tuple[torch.device, torch.dtype]:
    """Where and in which precision the frozen model runs: bfloat16 where the hardware has it."""
    if torch.cuda.is_available():
        return torch.device("cuda"), torch.bfloat16
    has_bfloat16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.device("cpu"), torch.bfloat16 if has_bfloat16 else torch.float32


class LossCache:
    """Measured losses of one base model, in one precision, below a directory."""

    def __init__(self, directory: Path, base_digest: str, dtype: torch.dtype) -> None:
        self._directory = directory
        self._setting = f"{base_digest} {dtype}"

    def load(self, adapter_digest: str | None) -> dict[str, float]:
        """Sample digest -> loss under an adapter or the base; damaged is unknown."""
        try:
            document = json.loads(self._path(adapter_digest).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        if not isinstance(document, dict):
            return {}
        return {
            key: loss
            for key, loss in document.items()
            if isinstance(loss, float) and math.isfinite(loss)
        }

    def save(self, adapter_digest: str | None, losses: dict[str, float]) -> None:
        """Replaces an adapter's file."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with published_file(self._path(adapter_digest)) as path:
            path.write_text(json.dumps(losses, indent=0), encoding="utf-8")

    def _path(self, adapter_digest: str | None) -> Path:
        key = hashlib.sha256(f"{self._setting} {adapter_digest or 'base'}".encode()).hexdigest()
        return self._directory / f"{key[:32]}.json"


def choose_measured(conversations: Sequence[Conversation], count: int) -> list[int]:
    """Which conversations to measure: those with the smallest digests, in their order.

    A file that grows or is put in another order keeps nearly all of its choice, and so its losses.
    """
    digests = [
        hashlib.sha256(json.dumps(one, sort_keys=True).encode()).digest() for one in conversations
    ]
    return sorted(sorted(range(len(digests)), key=digests.__getitem__)[:count])


def measure_losses(
    conversations: Sequence[Conversation],
    sources: Sequence[Source],
    model_directory: Path,
    cache_directory: Path,
) -> tuple[Matrix, int]:
    """Mean loss of the assistant's tokens in nats, float32 [conversations, 1 + sources].

    The first column is the base without an adapter. Also returns how many losses were not yet
    known. Raises ToolchainError when an adapter does not fit the model.
    """
    device, dtype = measuring_precision()
    cache = LossCache(cache_directory, prepared_base(model_directory).digest, dtype)
    tokenizer = load_tokenizer(model_directory)
    encoded = [_encode(conversation, tokenizer) for conversation in conversations]
    keys = [_sample_digest(one) for one in encoded]
    examples = dict(zip(keys, encoded, strict=True))
    columns: list[Source | None] = [None, *sources]
    known = [cache.load(source.digest if source else None) for source in columns]
    missing = [[key for key in examples if key not in losses] for losses in known]
    count = sum(map(len, missing))
    if count:
        model = load_base(model_directory, dtype).to(device)
        with progress_bar("Measuring losses", count) as bar:
            for source, losses, wanted in zip(columns, known, missing, strict=True):
                if wanted:
                    chosen = {key: examples[key] for key in wanted}
                    _measure(model, source, chosen, losses, cache, tokenizer.pad_token_id, bar)
    return np.array([[losses[key] for losses in known] for key in keys], np.float32), count


def _encode(conversation: Conversation, tokenizer: Any) -> Example:
    return encode(conversation, tokenizer, max_tokens=_MAX_TOKENS, where="a conversation")


def _sample_digest(example: Example) -> str:
    return hashlib.sha256(
        np.array([example.token_ids, example.labels], "<i4").tobytes()
    ).hexdigest()


def _measure(
    base: Any,
    source: Source | None,
    examples: dict[str, Example],
    losses: dict[str, float],
    cache: LossCache,
    pad_id: int,
    bar: Bar,
) -> None:
    """Adds the losses of `examples` under one adapter to `losses`, and keeps them."""
    model = base if source is None else _with_adapter(base, source)
    digest = source.digest if source else None
    keys = list(examples)
    lengths = [len(examples[key].token_ids) for key in keys]
    batches = batches_by_length(lengths, _BATCH_TOKENS, random.Random(0))  # noqa: S311
    try:
        for number, batch in enumerate(batches, start=1):
            ids, labels = pad([examples[keys[index]] for index in batch], pad_id)
            for index, loss in zip(batch, _example_losses(base, ids, labels), strict=True):
                if not math.isfinite(loss):
                    name = source.name if source else "base"
                    raise ToolchainError(f"{name!r} gives a loss that is not finite: leave it out")
                losses[keys[index]] = loss
            bar.advance(len(batch), source.name if source else "base")
            if number % _SAVE_EVERY == 0:
                cache.save(digest, losses)
    finally:
        cache.save(digest, losses)
        if source is not None:
            model.unload()


def _with_adapter(base: Any, source: Source) -> Any:
    with warnings.catch_warnings():
        # PEFT 0.21 still asks transformers 5 by the older name; nothing for users to act upon.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        try:
            return PeftModel.from_pretrained(base, source.directory).eval()
        except (RuntimeError, ValueError) as error:
            raise ToolchainError(f"adapter {source.name!r} does not fit the model") from error


@torch.inference_mode()
def _example_losses(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """Mean cross entropy of each example's labelled tokens, in nats."""
    device = next(model.parameters()).device
    with torch.autocast(device.type, torch.bfloat16, enabled=model.dtype == torch.bfloat16):
        hidden = model.model(ids.to(device), use_cache=False).last_hidden_state[:, :-1]
        wanted = labels[:, 1:].to(device)
        chosen = wanted != IGNORED
        logits = model.lm_head(hidden[chosen])
    each = functional.cross_entropy(logits.float(), wanted[chosen], reduction="none")
    sums = torch.zeros(len(ids), device=device).index_add_(0, chosen.nonzero()[:, 0], each)
    return [float(value) for value in sums / chosen.sum(1)]
