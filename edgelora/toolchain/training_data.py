"""The examples of a training run: read, rendered, and a share held out where none were given."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgelora.toolchain.chat_data import Conversation, Example, encode, numbered
from edgelora.toolchain.data_text import read_data_file
from edgelora.toolchain.errors import ToolchainError

MAX_HELD_OUT_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """What is learned from, and what is measured on; neither sees the other's examples."""

    train: list[Example]
    train_conversations: list[Conversation]
    train_sha256: str
    """Of the file."""
    test: list[Example]
    """Empty when nothing was held out."""
    test_conversations: list[Conversation]
    test_sha256: str | None
    """Of the file; None when the test data were drawn from the training file."""
    held_out_share: float
    """Share of the training file that became test data."""

    @property
    def train_tokens(self) -> int:
        """Tokens of the training examples, one pass."""
        return sum(len(example.token_ids) for example in self.train)


def read_training_data(
    train_file: Path,
    test_file: Path | None,
    tokenizer: Any,
    *,
    max_tokens: int,
    held_out_share: float,
    seed: int,
) -> TrainingData:
    """Reads and renders all examples.

    Without a test file `held_out_share` (0 to 0.5) of the training file, drawn by `seed`, is kept
    for measuring; at least one example when it is above 0. Raises ToolchainError naming file and
    line of the first example that can not be used.
    """
    if not 0 <= held_out_share <= MAX_HELD_OUT_SHARE:
        raise ToolchainError(f"the held-out share must be from 0 to {MAX_HELD_OUT_SHARE}")
    if not tokenizer.chat_template:
        raise ToolchainError("the model has no chat template to write conversations with")
    train, train_sha256 = _rendered(train_file, tokenizer, max_tokens)
    test, test_sha256 = _rendered(test_file, tokenizer, max_tokens) if test_file else ([], None)
    if test_file is None and held_out_share > 0:
        train, test = _split(train, held_out_share, seed, train_file.name)
    return TrainingData(
        train=[example for _, example in train],
        train_conversations=[conversation for conversation, _ in train],
        train_sha256=train_sha256,
        test=[example for _, example in test],
        test_conversations=[conversation for conversation, _ in test],
        test_sha256=test_sha256,
        held_out_share=0.0 if test_file else held_out_share,
    )


def sha256_of(path: Path) -> str:
    """Hexadecimal sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _rendered(
    path: Path, tokenizer: Any, max_tokens: int
) -> tuple[list[tuple[Conversation, Example]], str]:
    """The examples of a file, and its sha256."""
    data = read_data_file(path)
    pairs = [
        (one, encode(one, tokenizer, max_tokens=max_tokens, where=f"{path.name}, line {line}"))
        for line, one in numbered(data, path.name)
    ]
    return pairs, hashlib.sha256(data).hexdigest()


def _split(
    pairs: Sequence[tuple[Conversation, Example]], share: float, seed: int, name: str
) -> tuple[list[tuple[Conversation, Example]], list[tuple[Conversation, Example]]]:
    count = max(1, round(share * len(pairs)))
    if count >= len(pairs):
        raise ToolchainError(
            f"{name} is too short to hold some examples out: give --test-data, or --held-out 0"
        )
    drawn = set(random.Random(seed).sample(range(len(pairs)), count))  # noqa: S311 - no secret
    return (
        [pair for index, pair in enumerate(pairs) if index not in drawn],
        [pair for index, pair in enumerate(pairs) if index in drawn],
    )
