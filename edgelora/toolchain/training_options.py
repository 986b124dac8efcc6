"""What a training run may be asked for, and the "rule of three" it has to keep."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from edgelora.toolchain.errors import ToolchainError

MAX_EPOCHS = 3.0
MAX_DATA_SHARE = 0.03
"""Most training tokens, as a share of the tokens the base model was trained on."""
MAX_RANK = 256
ALL_LINEAR = "all-linear"
BASE_TRAINING_TOKENS = {"smollm2-135m-instruct": 2_000_000_000_000}
"""Tokens a base model was trained on, where its authors published it (arXiv:2502.02737)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """The settings of one LoRA fine-tuning run."""

    r: int = 8
    alpha: float | None = None
    """LoRA alpha; the update is scaled by alpha/r (alpha/sqrt(r) with `use_rslora`)."""
    targets: tuple[str, ...] = (ALL_LINEAR,)
    """Module names such as `q_proj`, or `all-linear` alone."""
    dropout: float = 0.0
    use_rslora: bool = False
    epochs: float = 2.0
    learning_rate: float = 1e-3
    """Peak learning rate of AdamW."""
    schedule: Literal["cosine", "linear"] = "cosine"
    """How the rate falls to zero after the warm-up."""
    warmup_share: float = 0.05
    """Share of the steps in which the rate rises from zero."""
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    batch_tokens: int = 768
    """Most tokens of one step, padding included."""
    max_example_tokens: int = 1024
    seed: int = 0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the frozen base while training; `auto` is bfloat16 where the processor multiplies it."""
    threads: int | None = None
    """Processor threads; None lets torch choose."""
    force: bool = False
    """Lets a run break the rule of three."""

    def check(self, modules: Collection[str]) -> None:
        """Raises ToolchainError for the first setting that cannot work.

        `modules`: names of the linear modules of the base model.
        """
        if not 1 <= self.r <= MAX_RANK:
            raise ToolchainError(f"r is {self.r}: the rank must be 1 to {MAX_RANK}")
        if self.alpha is None:
            raise ToolchainError("alpha is missing: give the LoRA alpha, often twice the rank")
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise ToolchainError(f"alpha is {self.alpha}: it must be a positive number")
        if not self.targets:
            raise ToolchainError(f"targets is empty: give module names or {ALL_LINEAR!r}")
        if self.targets != (ALL_LINEAR,):
            for target in self.targets:
                if target not in modules:
                    raise ToolchainError(
                        f"target module {target!r} does not exist in this model: choose from "
                        f"{', '.join(sorted(modules))}, or {ALL_LINEAR!r} alone"
                    )
        if not 0 <= self.dropout < 1:
            raise ToolchainError(f"dropout is {self.dropout}: it must be 0 or more and below 1")
        if not (math.isfinite(self.epochs) and self.epochs > 0):
            raise ToolchainError(f"epochs is {self.epochs}: it must be a positive number")
        if self.epochs > MAX_EPOCHS and not self.force:
            raise ToolchainError(
                f"epochs is {self.epochs:g}, at most {MAX_EPOCHS:g} keep the base's knowledge: "
                "lower it, or use --force"
            )
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ToolchainError("learning_rate must be a positive number")
        if not 0 <= self.warmup_share < 1:
            raise ToolchainError("warmup_share must be 0 or more and below 1")
        if self.batch_tokens < 1 or self.max_example_tokens < 2:
            raise ToolchainError("batch_tokens and max_example_tokens must be positive")
        if self.threads is not None and self.threads < 1:
            raise ToolchainError("threads must be at least 1")


def data_share(training_tokens: int, base_tokens: int | None, *, force: bool) -> float | None:
    """Share of the base's training tokens that the data is; None when the latter is unknown.

    Raises ToolchainError when it is above `MAX_DATA_SHARE` and not forced.
    """
    if base_tokens is None:
        return None
    if base_tokens < 1:
        raise ToolchainError("base_training_tokens must be positive")
    share = training_tokens / base_tokens
    if share > MAX_DATA_SHARE and not force:
        raise ToolchainError(
            f"the data holds {training_tokens} tokens, {100 * share:.1f} % of the base's; at most "
            f"{100 * MAX_DATA_SHARE:.0f} % are allowed: use less data, or --force"
        )
    return share
