"""`edgelora train --task classify`: from flags to a run; imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from edgelora.cli.output import progress_console
from edgelora.toolchain.classification.fit import FitInterrupted
from edgelora.toolchain.classification.options import MAX_EPOCHS, ClassificationOptions
from edgelora.toolchain.classification.report import ClassifierReport
from edgelora.toolchain.classification.train import ClassificationJob, train
from edgelora.toolchain.errors import ToolchainError

INTERRUPTED = 130
"""Exit status after Ctrl-C."""
SETTINGS = frozenset(
    {
        "r",
        "alpha",
        "targets",
        "dropout",
        "epochs",
        "learning_rate",
        "checkpoint_steps",
        "seed",
        "threads",
    }
)
"""Flags of `edgelora train` that a classifier has too; each has a default of its own."""


def train_one(
    job: ClassificationJob,
    output: Path,
    given: Mapping[str, Any],
    *,
    replace: bool,
    resume: bool,
) -> ClassifierReport:
    """Trains with the recipe's own settings but for those that were given."""
    settings = dict(given)
    if "r" in settings:
        settings.setdefault("alpha", 2.0 * settings["r"])
    if "epochs" in settings:
        if not 0 <= settings["epochs"] <= MAX_EPOCHS:
            raise ToolchainError(f"epochs must be from 1 to {MAX_EPOCHS}")
        settings["epochs"] = round(settings["epochs"])
    options = ClassificationOptions(**settings)
    try:
        return train(job, options, output, replace=replace, resume=resume)
    except FitInterrupted:
        progress_console().print(
            "edgelora: interrupted; the same command with --resume goes on from the checkpoint"
        )
        raise click.exceptions.Exit(INTERRUPTED) from None


_MEASURES = (("in_scope", "right"), ("out_of_scope_recall", "without a label found"))


def summary(report: ClassifierReport) -> str:
    """One line for the terminal."""
    measures = []
    for split in ("validation", "test"):
        measured = report.measures.get(split, {})
        for name, words in _MEASURES:
            value = measured.get(name)
            if value is not None:
                measures.append(f"{100 * value:.1f} % of {split} texts {words}")
    return (
        f"trained {report.name}: {report.labels} labels in {report.wall_seconds:.0f} s, "
        f"{report.weights_bytes / 1e6:.1f} MB, {', '.join(measures)}"
    )
