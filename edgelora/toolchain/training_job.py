"""What a training run is asked to make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgelora.toolchain.chat_data import Conversation
from edgelora.toolchain.rank_plan import RankPlan

TaskMeasure = Callable[[Any, Any, list[Conversation]], float]
"""(model, tokenizer, test conversations) -> a share, measured for the base and every version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What to train on what."""

    name: str
    model_directory: Path
    train_file: Path
    test_file: Path | None = None
    held_out_share: float = 0.0
    """Share of the training file kept as test data when there is no test file."""
    description: str = "A LoRA adapter."
    base_training_tokens: int | None = None
    """Tokens the base was trained on; None looks the model up in `BASE_TRAINING_TOKENS`."""
    task: tuple[str, TaskMeasure] | None = None
    """A further measure on the test data and its name."""
    ranks: RankPlan = field(default_factory=RankPlan)
    licence: str = "unknown"
    """SPDX identifier of the adapter's licence."""
    permissions: tuple[str, ...] = ("commands: none",)
    """What the adapter may be used for, as its author declares it."""
    examples: tuple[str, ...] = ()
    """Prompts for its card."""
    quotes_data: bool = False
    """Whether the card quotes prompts of the training data when no examples are given."""
