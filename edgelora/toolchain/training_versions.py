"""Trains the adapter of the highest rank and makes its versions, cut or trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from edgelora.toolchain.lora_model import add_lora, load_base, save_adapter
from edgelora.toolchain.rank_plan import RankPlan, budget_parameters
from edgelora.toolchain.training_checkpoint import CheckpointFile
from edgelora.toolchain.training_data import TrainingData
from edgelora.toolchain.training_hardware import Hardware
from edgelora.toolchain.training_options import TrainingOptions
from edgelora.toolchain.training_ranks import (
    Version,
    allocated_version,
    cut_versions,
    energy_by_kind,
    rank_directory,
)
from edgelora.toolchain.training_steps import Fit, fit
from services.chassis.base_model import BaseModel

_NO_MATTER = frozenset(
    {"gradient_checkpointing", "checkpoint_steps", "threads", "force", "device", "precision"}
)
"""Options that may change from one start of a run to the next; precision counts as resolved."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What every training of a run shares."""

    model_directory: Path
    base: BaseModel
    hardware: Hardware
    tokenizer: Any
    data: TrainingData
    checkpoints: Path | None
    """Directory of the checkpoints; None for a run that can not be resumed."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a run made."""

    versions: list[Version]
    """The adapter itself first, then what stands in for it; last what is only measured."""
    fits: list[Fit]
    """Of every training, the first one's rank first."""
    energy: dict[str, list[float]]
    """Of the first training: share of the update's energy that each rank keeps, by kind."""


def train_versions(
    setup: Setup, options: TrainingOptions, plan: RankPlan, directory: Path, scratch: Path
) -> Trained:
    """Fills `directory` with the adapter, and `rank-R` below it with each version.

    With a budget the adapter as it was trained lies in `scratch`, to be measured beside them.
    """
    place = directory if plan.budget is None else scratch
    fits = [_train(setup, options, place)]
    trained = Version(name=f"rank {options.r}", directory=place, rank=options.r, origin="trained")
    versions = [trained]
    if plan.budget is not None:
        each = options.parameters_of_one_rank(setup.base)
        budget = budget_parameters(plan.budget, options.r, each)
        versions = [allocated_version(directory, place, budget)]
    if plan.train_each:
        for rank in plan.lower:
            target = rank_directory(directory, rank)
            target.mkdir()
            fits.append(_train(setup, options.at_rank(rank), target))
            name = f"rank {rank}"
            versions.append(Version(name=name, directory=target, rank=rank, origin="trained"))
    else:
        versions += cut_versions(directory, versions[0].rank, plan)
    if plan.budget is not None:
        versions.append(replace(trained, is_kept=False))
    return Trained(
        versions=versions,
        fits=fits,
        energy=energy_by_kind(place),
    )


def _train(setup: Setup, options: TrainingOptions, directory: Path) -> Fit:
    """One training, its adapter saved into a directory."""
    say = partial(Console(stderr=True, highlight=False).print, soft_wrap=True)
    hardware, pad_id = setup.hardware, setup.tokenizer.pad_token_id
    torch.manual_seed(options.seed)
    base = load_base(setup.model_directory, hardware.dtype)
    model = add_lora(base, options, setup.base.name).to(hardware.device)
    checkpoint = None
    if setup.checkpoints is not None:
        path = setup.checkpoints / f"rank-{options.r}.checkpoint"
        checkpoint = CheckpointFile(path, _identity(setup, options))
    done = fit(
        model,
        setup.data.train,
        setup.data.test,
        options,
        hardware,
        pad_id,
        checkpoint=checkpoint,
        say=say,
    )
    save_adapter(model, directory)
    return done


def _identity(setup: Setup, options: TrainingOptions) -> dict[str, str]:
    """What has to be the same for one run to go on with the state of another."""
    settings = asdict(options).items()
    return {name: str(value) for name, value in settings if name not in _NO_MATTER} | {
        "base_model": setup.base.digest,
        "training_data": setup.data.train_sha256,
        "test_data": f"{setup.data.test_sha256} {setup.data.held_out_share}",
        "precision": str(setup.hardware.dtype),
    }
