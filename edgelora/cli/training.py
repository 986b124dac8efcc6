"""Starts training runs for `edgelora train`; imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgelora.cli.errors import CliError
from edgelora.cli.output import progress_console
from edgelora.toolchain.demo import DEMO_ADAPTERS, train_demo
from edgelora.toolchain.exact_match import exact_match
from edgelora.toolchain.rank_plan import DEFAULT_BUDGET, DEFAULT_RANKS, RankPlan
from edgelora.toolchain.train import TrainingJob, train, unfinished_run
from edgelora.toolchain.training_options import TrainingOptions
from edgelora.toolchain.training_output import check_replaced
from edgelora.toolchain.training_report import TrainingReport

_INTERRUPTED = 130


def train_one(
    data: Path, output: Path, model_directory: Path, flags: dict[str, Any], *, replace: bool
) -> TrainingReport:
    """Trains an adapter on the user's own data. `flags`: of the command, by their names."""
    job, options, resume = _asked(data, output, model_directory, dict(flags))
    if job.quotes_data and not job.examples:
        progress_console().print(
            "The card will quote a few prompts of the data: --no-examples leaves them out"
        )
    try:
        return train(job, options, output, replace=replace, resume=resume)
    except KeyboardInterrupt:
        if not unfinished_run(output).exists():
            raise
        progress_console().print(
            "edgelora: interrupted; the same command with --resume goes on from the checkpoint"
        )
        raise click.exceptions.Exit(_INTERRUPTED) from None


def _asked(
    data: Path, output: Path, model_directory: Path, flags: dict[str, Any]
) -> tuple[TrainingJob, TrainingOptions, bool]:
    """What to train, how, and whether to go on with an earlier run."""
    rank, several, budget = flags.pop("rank"), flags.pop("ranks"), flags.pop("rank_budget")
    highest, *lower = (rank,) if isinstance(rank, int) else several or DEFAULT_RANKS
    measure = flags.pop("measure")
    job = TrainingJob(
        name=flags.pop("name") or output.name,
        model_directory=model_directory,
        train_file=data,
        test_file=flags.pop("test_data"),
        held_out_share=flags.pop("held_out"),
        description=flags.pop("description"),
        base_training_tokens=flags.pop("base_training_tokens"),
        task=(measure.replace("-", "_"), exact_match) if measure else None,
        ranks=RankPlan(
            lower=tuple(lower),
            train_each=flags.pop("train_each"),
            budget=(budget or DEFAULT_BUDGET) if rank == "auto" else None,
        ),
        licence=flags.pop("licence"),
        permissions=flags.pop("permission") or ("commands: none",),
        examples=flags.pop("example"),
        quotes_data=not flags.pop("no_examples"),
    )
    resume = flags.pop("resume")
    flags["alpha"] = 2.0 * highest if flags["alpha"] is None else flags["alpha"]
    flags["targets"] = flags["targets"] or ("all-linear",)
    return job, TrainingOptions(r=highest, **flags), resume


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
        if (output / name).exists():
            check_replaced(output / name, (), replace=replace)
    reports = {}
    for name in names:
        progress_console().print(f"Demo adapter {name}")
        reports[name] = train_demo(name, model_directory, output / name, threads=threads)
    return reports
