"""What the training of a classifier may be asked for."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from edgelora.adapter_format.config_parser import MAX_ALPHA
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.seed import check_seed
from edgelora.toolchain.training_options import (
    ALL_LINEAR,
    MAX_LEARNING_RATE,
    MAX_RANK,
    check_threads,
)

MAX_EPOCHS = 1000
"""All batches are drawn before the first step."""
Method = Literal["lora", "full", "probe"]
"""What is trained besides the head: LoRA factors, every weight, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationOptions:
    """The settings of one run."""

    method: Method = "lora"
    r: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("query", "value", "output.dense")
    """Module names, or `all-linear` alone. `output.dense` means those of attention and
    feed-forward, as PEFT reads it."""
    dropout: float = 0.1
    """Of the hidden vectors, as BERT has it."""
    epochs: int = 3
    learning_rate: float = 1.5e-3
    """Peak rate of AdamW for the encoder."""
    head_learning_rate: float = 1e-3
    layer_decay: float = 1.0
    """Each layer's rate as a share of the rate of the one above."""
    weight_decay: float = 0.01
    warmup_share: float = 0.06
    batch_size: int = 64
    label_smoothing: float = 0.03
    consistency: float = 0.0
    """Weight of the divergence between what two draws of dropout make of the same texts (R-Drop,
    Liang et al., arXiv 2106.14448); doubles the time, 0 leaves it out."""
    averaging: float = 0.99
    """Share of the running average of the weights that each step keeps; 0 takes the last ones."""
    head_scale: float = 20.0
    """Length of the head's first rows, which point to the mean of their label's texts."""
    out_of_scope_weight: int = 3
    """Times that a text without a label is seen in an epoch."""
    max_scope_loss: float = 0.001
    """Share of the validation texts in scope that the out-of-scope threshold may lose."""
    max_tokens: int = 64
    """Of a training text; what is longer is cut."""
    checkpoint_steps: int = 200
    """Between two checkpoints."""
    seed: int = 0
    threads: int | None = None
    """Processor threads; None lets torch choose."""

    def check(self, modules: Collection[str]) -> None:
        """Raises ToolchainError for the first setting that cannot work.

        `modules`: names of the linear modules of the encoder.
        """
        if not 1 <= self.r <= MAX_RANK:
            raise ToolchainError(f"r is {self.r}: the rank must be 1 to {MAX_RANK}")
        for name, most in (
            ("alpha", MAX_ALPHA),
            ("learning_rate", MAX_LEARNING_RATE),
            ("head_learning_rate", MAX_LEARNING_RATE),
            ("head_scale", MAX_ALPHA),
        ):
            if not 0 < getattr(self, name) <= most:
                raise ToolchainError(f"{name} must be a positive number of at most {most:g}")
        if not self.targets:
            raise ToolchainError(f"targets is empty: give module names or {ALL_LINEAR!r}")
        for target in self.targets:
            if self.targets != (ALL_LINEAR,) and target not in modules:
                raise ToolchainError(
                    f"target module {target!r} does not exist in this encoder: choose from "
                    f"{', '.join(sorted(modules))}, or {ALL_LINEAR!r} alone"
                )
        for name in ("dropout", "label_smoothing", "averaging", "warmup_share", "max_scope_loss"):
            if not 0 <= getattr(self, name) < 1:
                raise ToolchainError(f"{name} must be 0 or more and below 1")
        if not 0 < self.layer_decay <= 1:
            raise ToolchainError("layer_decay must be above 0 and at most 1")
        for name in ("weight_decay", "consistency"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ToolchainError(f"{name} must be 0 or more")
        if self.consistency and (self.method == "probe" or not self.dropout):
            raise ToolchainError("consistency needs dropout: set one, and train more than the head")
        for name in ("epochs", "batch_size", "out_of_scope_weight", "checkpoint_steps"):
            if getattr(self, name) < 1:
                raise ToolchainError(f"{name} must be at least 1")
        if self.max_tokens < 3:
            raise ToolchainError("max_tokens must be at least 3")
        if self.epochs > MAX_EPOCHS:
            raise ToolchainError(f"epochs must be at most {MAX_EPOCHS}")
        check_seed(self.seed)
        check_threads(self.threads)
