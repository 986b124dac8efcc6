"""How good the versions of a trained adapter are, as they lie in their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgelora.toolchain.evaluation import held_out_loss
from edgelora.toolchain.lora_model import WEIGHTS_FILE, load_base, with_adapter
from edgelora.toolchain.progress import progress_bar
from edgelora.toolchain.training_data import sha256_of
from edgelora.toolchain.training_job import TaskMeasure
from edgelora.toolchain.training_ranks import Version, num_parameters
from edgelora.toolchain.training_report import RankFacts
from edgelora.toolchain.training_versions import Setup


@dataclass(frozen=True, slots=True)
class Quality:
    """What was measured; nothing without test data."""

    base_loss: float | None
    base_task: dict[str, float]
    versions: list[RankFacts]


def measure_versions(
    setup: Setup,
    versions: Sequence[Version],
    directory: Path,
    task: tuple[str, TaskMeasure] | None,
) -> Quality:
    """Measures base and versions in fp32, each loaded by PEFT from the files that ship.

    `directory`: of the result, which the versions are in.
    """
    data, tokenizer = setup.data, setup.tokenizer
    if not data.test:
        return Quality(None, {}, [_facts(one, directory, None, {}) for one in versions])

    def loss_and_task(model: Any, what: str) -> tuple[float, dict[str, float]]:
        with progress_bar(f"Measuring {what}", 1) as bar:
            loss = round(held_out_loss(model, data.test, tokenizer.pad_token_id), 4)
            bar.advance(1, f"held-out loss {loss:.3f}")
        if task is None:
            return loss, {}
        name, measure = task  # which has a bar of its own
        return loss, {name: measure(model, tokenizer, data.test_conversations)}

    model = load_base(setup.model_directory, torch.float32).to(setup.hardware.device)
    base_loss, base_task = loss_and_task(model, "the base model")
    facts = []
    for version in versions:
        adapted = with_adapter(model, version.directory)
        facts.append(_facts(version, directory, *loss_and_task(adapted, version.name)))
        model = adapted.unload()
    return Quality(base_loss, base_task, facts)


def _facts(
    version: Version, directory: Path, loss: float | None, task: dict[str, float]
) -> RankFacts:
    weights = version.directory / WEIGHTS_FILE
    return RankFacts(
        name=version.name,
        directory=version.directory.relative_to(directory).as_posix() if version.is_kept else None,
        rank=version.rank,
        origin=version.origin,
        parameters=num_parameters(version.directory),
        weights_bytes=weights.stat().st_size,
        weights_sha256=sha256_of(weights),
        relative_error=version.relative_error,
        held_out_loss=loss,
        task=task,
    )
