"""What a training run may be asked for, and the "rule of three" it has to keep."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from edgelora.adapter_format.config_parser import MAX_ALPHA
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.seed import check_seed
from services.chassis.base_model import BaseModel

MAX_EPOCHS = 3.0
MAX_DATA_SHARE = 0.03
"""Most training tokens, as a share of the tokens the base model was trained on."""
MAX_RANK = 256
MAX_COUNTED_EPOCHS = 1e9
"""Even with `force`: so that steps can be counted."""
MAX_LEARNING_RATE = 1e9
MAX_THREADS = 1024
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
    """Of the arithmetic while training; the adapter itself is always kept in fp32. `auto` is
    bfloat16 where the hardware multiplies it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` is a CUDA device where torch has one."""
    gradient_checkpointing: bool = False
    """Computes each layer again on the way back: about a third slower, and much less memory."""
    early_stop: int | None = None
    """Stops after this many measurements in a row without a lower held-out loss, and keeps the best
    state; None runs to the end and keeps the last."""
    measurements_per_epoch: int = 4
    """How often the held-out loss is measured with `early_stop`."""
    checkpoint_steps: int = 25
    """Steps between two checkpoints."""
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
        if not 0 < self.alpha <= MAX_ALPHA:
            raise ToolchainError(
                f"alpha is {self.alpha}: it must be a positive number of at most {MAX_ALPHA:g}"
            )
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
        if not 0 < self.epochs <= MAX_COUNTED_EPOCHS:
            raise ToolchainError(f"epochs is {self.epochs}: it must be a positive number")
        if self.epochs > MAX_EPOCHS and not self.force:
            raise ToolchainError(
                f"epochs is {self.epochs:g}, at most {MAX_EPOCHS:g} keep the base's knowledge: "
                "lower it, or use --force"
            )
        if not 0 < self.learning_rate <= MAX_LEARNING_RATE:
            raise ToolchainError(
                f"learning_rate must be a positive number of at most {MAX_LEARNING_RATE:g}"
            )
        if not 0 <= self.warmup_share < 1:
            raise ToolchainError("warmup_share must be 0 or more and below 1")
        if self.batch_tokens < 1 or self.max_example_tokens < 2:
            raise ToolchainError("batch_tokens and max_example_tokens must be positive")
        check_seed(self.seed)
        check_threads(self.threads)
        if self.early_stop is not None and self.early_stop < 1:
            raise ToolchainError("early_stop must be at least 1 measurement")
        if self.measurements_per_epoch < 1 or self.checkpoint_steps < 1:
            raise ToolchainError("measurements_per_epoch and checkpoint_steps must be at least 1")

    @property
    def scaling(self) -> float:
        """What the update is multiplied with."""
        alpha = self.alpha or 0.0
        return alpha / math.sqrt(self.r) if self.use_rslora else alpha / self.r

    def parameters_of_one_rank(self, base: BaseModel) -> int:
        """Parameters that rank 1 in every adapted module has."""
        chosen = base.targets if self.targets == (ALL_LINEAR,) else self.targets
        return base.num_layers * sum(sum(base.targets[name]) for name in chosen)

    def at_rank(self, r: int) -> TrainingOptions:
        """The same run at another rank, with the same scaling."""
        alpha = self.scaling * (math.sqrt(r) if self.use_rslora else r)
        return dataclasses.replace(self, r=r, alpha=alpha)


def check_threads(threads: int | None) -> None:
    """Raises ToolchainError for a number of threads that no machine runs well."""
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise ToolchainError(f"threads must be from 1 to {MAX_THREADS}")


def data_share(
    training_tokens: int, base_tokens: int | None, *, force: bool, base_parameters: int = 0
) -> float | None:
    """Share of the base's training tokens that the data is; None when the latter is unknown.

    An unknown base counts as trained on one token a parameter, fewer than any was, unless
    `base_parameters` is 0. Raises ToolchainError when the share is above `MAX_DATA_SHARE` and not
    forced.
    """
    if base_tokens is not None and base_tokens < 1:
        raise ToolchainError("base_training_tokens must be positive")
    counted = base_tokens or base_parameters
    if counted and training_tokens / counted > MAX_DATA_SHARE and not force:
        whose = "the base's" if base_tokens else "what it surely saw of text"
        remedy = "" if base_tokens else "give --base-training-tokens, "
        raise ToolchainError(
            f"the data holds {training_tokens} tokens, {100 * training_tokens / counted:.1f} % of "
            f"{whose}; at most {100 * MAX_DATA_SHARE:.0f} % are allowed: {remedy}use less data, or "
            "--force"
        )
    return training_tokens / base_tokens if base_tokens else None
