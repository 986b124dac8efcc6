"""How much memory a training run takes, and what to change where that is too much.

The estimate was fitted to resident memory measured on a 135M model; it is meant to be right within
a third, so that a run that can not fit is refused before it has taken an hour. Pure but for
`free_bytes`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.training_options import ALL_LINEAR, TrainingOptions
from services.chassis.base_model import BaseModel
from services.monitor.probes.memory import MemoryProbe
from services.monitor.probes.sensor_files import SensorFiles

_PROGRAM_BYTES = 500 << 20
"""Python, torch, transformers and PEFT."""
_ADAPTER_BYTES = 4 * 5
"""Of a parameter: itself, its gradient, two moments, and a copy while the state is saved."""
_LOGIT_BYTES = 4 * 4
"""Of a loss token and word: logits as computed, in fp32, as probabilities, and their gradient."""
_MIN_RANK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSize:
    """What a run is made of, as far as its memory goes."""

    base: BaseModel
    base_parameters: int
    """All of them."""
    longest_tokens: int
    """Of any example: a step holds at least one."""
    loss_share: float
    """Share of the tokens that carry loss."""
    is_mixed: bool
    """Whether the base is kept in 16 bits."""

    def bytes(self, options: TrainingOptions) -> int:
        """Estimated resident memory at its highest."""
        base, width = self.base, 2 if self.is_mixed else 4
        chosen = base.targets if options.targets == (ALL_LINEAR,) else options.targets
        shapes = [base.targets[name] for name in chosen]
        adapter = options.r * options.parameters_of_one_rank(base)
        tokens = max(options.batch_tokens, self.longest_tokens)
        inputs = sum(columns for _, columns in shapes) + len(shapes) * options.r
        outputs = sum(rows for rows, _ in base.targets.values())
        # What the way back needs of a layer: inputs of adapted modules in fp32, what each module
        # puts out, and the norms, which compute in fp32.
        layer = tokens * (4 * inputs + 2 * width * outputs + 24 * base.hidden_size)
        layers = base.num_layers * layer
        if options.gradient_checkpointing:
            layers = base.num_layers * tokens * width * base.hidden_size + layer
        logits = int(tokens * self.loss_share) * base.vocab_size * _LOGIT_BYTES
        frozen = self.base_parameters * width
        return _PROGRAM_BYTES + frozen + adapter * _ADAPTER_BYTES + layers + logits

    def check(self, options: TrainingOptions, available_bytes: int | None) -> None:
        """Raises ToolchainError with advice when more would be needed than there is."""
        needed = self.bytes(options)
        if available_bytes is not None and needed > available_bytes:
            raise ToolchainError(
                f"training needs about {needed / 1e9:.1f} GB of memory and "
                f"{available_bytes / 1e9:.1f} GB are free: "
                f"{self.advice(options, available_bytes)}; --force starts anyway"
            )

    def advice(self, options: TrainingOptions, limit_bytes: int | None) -> str:
        """The flags that make it fit, from what to what; the likeliest where no limit is known.

        Changes are tried in the order in which they cost least: first what leaves the result as it
        is.
        """
        changes: dict[str, str] = {}
        for flag, change, lighter in self._lighter(options):
            changes[flag] = change
            if limit_bytes is None or self.bytes(lighter) <= limit_bytes:
                return "try " + " and ".join(changes.values())
        return "no setting of this run makes it fit: take a smaller base model, or another machine"

    def _lighter(self, options: TrainingOptions) -> Iterator[tuple[str, str, TrainingOptions]]:
        """Flag, what to write, and the options with all changes so far."""
        if not options.gradient_checkpointing:
            options = dataclasses.replace(options, gradient_checkpointing=True)
            yield "checkpointing", "--gradient-checkpointing", options
        before = options.batch_tokens
        while options.batch_tokens // 2 >= self.longest_tokens:
            options = dataclasses.replace(options, batch_tokens=options.batch_tokens // 2)
            yield "batch", f"--batch-tokens {options.batch_tokens} instead of {before}", options
        rank = options.r
        while options.r // 2 >= _MIN_RANK:
            options = options.at_rank(options.r // 2)
            yield "rank", f"rank {options.r} instead of {rank}", options


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that can still be used, of the machine or of the container; None when unknown."""
    return (
        MemoryProbe(SensorFiles(root, time.monotonic, on_unreadable=_unsaid)).read().available_bytes
    )


def _unsaid(sensor: str, cause: str) -> None:
    """What can not be read is unknown, and that is told once, by who asks."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch or Python says that memory ran out."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "not enough memory" in text or "out of memory" in text
    )
