"""Starts training runs for `edgelora train`; imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgelora.cli.errors import CliError
from edgelora.cli.output import progress_console
from edgelora.toolchain.demo import DEMO_ADAPTERS, train_demo
from edgelora.toolchain.train import TrainingJob, train
from edgelora.toolchain.training_options import TrainingOptions
from edgelora.toolchain.training_report import TrainingReport


def train_one(
    data: Path,
    test_data: Path | None,
    output: Path,
    name: str | None,
    model_directory: Path,
    flags: dict[str, Any],
    *,
    replace: bool,
) -> TrainingReport:
    """Trains an adapter on the user's own data."""
    job = TrainingJob(
        name=name or output.name,
        model_directory=model_directory,
        train_file=data,
        test_file=test_data,
    )
    return train(job, TrainingOptions(**flags), output, replace=replace)


def train_demos(
    wanted: str, model_directory: Path, output: Path, *, threads: int | None, replace: bool
) -> dict[str, TrainingReport]:
    """Reproduces one demo adapter, or `all`, each below `output`."""
    names = list(DEMO_ADAPTERS) if wanted == "all" else [wanted]
    for name in names:
        if name not in DEMO_ADAPTERS:
            raise CliError(
                f"there is no demo adapter {name}: choose all, or one of {', '.join(DEMO_ADAPTERS)}"
            )
        if (output / name).exists() and not replace:
            raise CliError(f"{output / name} exists: give --replace, or another --output")
    reports = {}
    for name in names:
        progress_console().print(f"Demo adapter {name}")
        reports[name] = train_demo(name, model_directory, output / name, threads=threads)
    return reports
