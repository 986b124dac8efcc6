"""The steps of a training run, from the first or from where an earlier process left off.

A run that was killed and resumed computes, on a processor with the same number of threads, bit for
bit what an uninterrupted one does: weights, moments of the optimizer, the random state of dropout
and the position in the data are all in the checkpoint.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import torch

from edgelora.toolchain.batches import batches_by_length, learning_rate_share
from edgelora.toolchain.chat_data import Example
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.evaluation import assistant_loss, held_out_loss, pad
from edgelora.toolchain.interruption import Interruption
from edgelora.toolchain.lora_model import adapter_tensors, set_adapter_tensors
from edgelora.toolchain.progress import progress_bar
from edgelora.toolchain.training_checkpoint import CheckpointFile, State, refusing_damaged
from edgelora.toolchain.training_hardware import Hardware
from edgelora.toolchain.training_options import TrainingOptions
from edgelora.toolchain.training_pace import Pace

_CURVE_POINTS = 40
MAX_MEASURED_EXAMPLES = 200
"""Held-out examples that early stopping looks at, drawn once."""


@dataclass(slots=True, kw_only=True)
class Fit:
    """What a run has done so far; when it ends, what it did."""

    steps: int
    """Of the whole run, unless it stopped early."""
    step: int = 0
    """How many are done."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    """(step, mean loss in nats since the entry before)."""
    held_out_curve: list[tuple[int, float]] = field(default_factory=list)
    """(step, held-out loss in nats), with early stopping."""
    loss_sum: float = 0.0
    loss_tokens: int = 0
    """Since the last entry of the curve."""
    seconds: float = 0.0
    """Spent in steps and measurements, by all processes together."""
    resumed_at: list[int] = field(default_factory=list)
    """Steps at which another process went on."""
    best_step: int | None = None
    """The step whose state was kept; None for the last."""
    misses: int = 0
    """Measurements since the best one."""
    stopped_early: bool = False

    @property
    def is_over(self) -> bool:
        """Whether no step is left."""
        return self.stopped_early or self.step >= self.steps

    def judge(self, held_out_loss: float, patience: int) -> bool:
        """Takes note of a measurement; returns whether it is the best so far.

        After `patience` others in a row the run is over.
        """
        is_best = all(held_out_loss < loss for _, loss in self.held_out_curve)
        self.held_out_curve.append((self.step, held_out_loss))
        if is_best:
            self.best_step, self.misses = self.step, 0
        else:
            self.misses += 1
        self.stopped_early = self.misses >= patience and self.step < self.steps
        return is_best


def fit(
    model: Any,
    train: Sequence[Example],
    held_out: Sequence[Example],
    options: TrainingOptions,
    hardware: Hardware,
    pad_id: int,
    *,
    checkpoint: CheckpointFile | None = None,
    say: Callable[[str], None],
) -> Fit:
    """Trains the adapter of `model`, which is on its device, and leaves the kept state in it.

    `held_out` is looked at with `early_stop` alone. A state in `checkpoint` is gone on with. Raises
    KeyboardInterrupt after Ctrl-C or SIGTERM, once the step is done and its state is saved, and
    ToolchainError when the loss is no longer finite.
    """
    batches, per_epoch = _batches(train, options)
    run = Fit(steps=max(1, round(per_epoch * options.epochs)))
    parameters = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters, lr=options.learning_rate, weight_decay=options.weight_decay
    )
    best: dict[str, torch.Tensor] | None = None
    state = checkpoint.load() if checkpoint else None
    if state is not None:
        with refusing_damaged():
            best = _restore(state, run, model, optimizer)
        if run.is_over:
            return _finished(run, model, best)
        say(f"Going on after step {run.step} of {run.steps}")
        run.resumed_at.append(run.step)

    measured = _drawn(held_out, options.seed)
    measure_steps = max(1, round(per_epoch / options.measurements_per_epoch))
    pace = Pace(run.steps - run.step, hardware, say)
    model.train()
    with progress_bar("Training", run.steps) as bar, Interruption() as interruption:
        bar.advance(run.step)
        for indices in islice(batches, run.step, run.steps):
            started = time.monotonic()
            batch = [train[index] for index in indices]
            _step(model, batch, run, options, hardware, optimizer, parameters, pad_id)
            is_measured = run.step % measure_steps == 0 or run.step == run.steps
            if options.early_stop and is_measured:
                loss = _measured_loss(model, measured, hardware, pad_id)
                if run.judge(loss, options.early_stop):
                    best = adapter_tensors(model)
            seconds = time.monotonic() - started
            run.seconds += seconds
            pace.saw(seconds)
            bar.advance(1, _note(run))
            is_due = run.step % options.checkpoint_steps == 0 or run.is_over
            if checkpoint and (is_due or interruption.is_wanted):
                checkpoint.save(_state(run, model, optimizer, best))
            if run.is_over:
                break
            if interruption.is_wanted:
                raise KeyboardInterrupt
    return _finished(run, model, best)


def _batches(
    examples: Sequence[Example], options: TrainingOptions
) -> tuple[Iterator[list[int]], int]:
    """The batches of one epoch after another, drawn by the seed, and how many the first one has."""
    order = random.Random(options.seed)  # noqa: S311 - shuffling, no secret
    lengths = [len(example.token_ids) for example in examples]
    first = batches_by_length(lengths, options.batch_tokens, order)

    def epochs() -> Iterator[list[int]]:
        yield from first
        while True:
            yield from batches_by_length(lengths, options.batch_tokens, order)

    return epochs(), len(first)


def _step(
    model: Any,
    batch: Sequence[Example],
    run: Fit,
    options: TrainingOptions,
    hardware: Hardware,
    optimizer: torch.optim.Optimizer,
    parameters: list[torch.nn.Parameter],
    pad_id: int,
) -> None:
    share = learning_rate_share(run.step, run.steps, options.warmup_share, options.schedule)
    for group in optimizer.param_groups:
        group["lr"] = options.learning_rate * share
    tokens = sum(example.loss_tokens for example in batch)
    with hardware.precision():
        loss = assistant_loss(model, *pad(batch, pad_id))
    if not bool(torch.isfinite(loss)):
        raise ToolchainError(f"training diverged in step {run.step + 1}: lower the learning rate")
    (loss / tokens).backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(parameters, options.max_grad_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    run.step += 1
    run.loss_sum, run.loss_tokens = run.loss_sum + float(loss.detach()), run.loss_tokens + tokens
    if run.step % max(1, run.steps // _CURVE_POINTS) == 0 or run.step == run.steps:
        run.curve.append((run.step, round(run.loss_sum / run.loss_tokens, 4)))
        run.loss_sum, run.loss_tokens = 0.0, 0


def _measured_loss(
    model: Any, examples: Sequence[Example], hardware: Hardware, pad_id: int
) -> float:
    with hardware.precision():
        loss = held_out_loss(model, examples, pad_id)
    model.train()
    return round(loss, 4)


def _drawn(examples: Sequence[Example], seed: int) -> list[Example]:
    count = min(MAX_MEASURED_EXAMPLES, len(examples))
    return random.Random(seed).sample(list(examples), count)  # noqa: S311 - a draw, no secret


def _note(run: Fit) -> str:
    loss = run.loss_sum / run.loss_tokens if run.loss_tokens else run.curve[-1][1]
    held_out = f", held out {run.held_out_curve[-1][1]:.3f}" if run.held_out_curve else ""
    return f"loss {loss:.3f}{held_out}"


def _state(
    run: Fit, model: Any, optimizer: torch.optim.Optimizer, best: dict[str, torch.Tensor] | None
) -> State:
    return {
        "run": asdict(run),
        "adapter": adapter_tensors(model),
        "optimizer": optimizer.state_dict(),
        "best": best,
        "random": torch.get_rng_state(),
        "cuda_random": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _restore(
    state: State, run: Fit, model: Any, optimizer: torch.optim.Optimizer
) -> dict[str, torch.Tensor] | None:
    """Puts a state back; returns the adapter of the best measurement."""
    for name, value in state["run"].items():
        setattr(run, name, value)
    set_adapter_tensors(model, state["adapter"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    if state["cuda_random"]:
        torch.cuda.set_rng_state_all(state["cuda_random"])
    best: dict[str, torch.Tensor] | None = state["best"]
    return best


def _finished(run: Fit, model: Any, best: dict[str, torch.Tensor] | None) -> Fit:
    if best is not None:
        set_adapter_tensors(model, best)
    return run
