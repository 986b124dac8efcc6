"""`edgelora train`: fine-tunes an adapter, with its settings as flags."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from edgelora.cli.demo_cast import DEMO_DIRECTORY
from edgelora.cli.output import print_json
from edgelora.cli.places import home_option, json_option
from services.chassis.base_model import DEFAULT_ENCODER_NAME, DEFAULT_NAME

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("data", type=_FILE, required=False)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Directory to be made. [demos: demo/]"
)
@click.option(
    "--task", type=click.Choice(["generate", "classify"]), default="generate", show_default=True
)
@click.option("--demo", metavar="NAME|all", help="Train a demo adapter as it is shipped.")
@click.option("--test-data", type=_FILE, help="Held-out conversations; their loss is reported.")
@click.option("--name", help="The adapter's name. [default: the output's]")
@click.option(
    "--model", help=f"Prepared model. [default: {DEFAULT_NAME}; classify: {DEFAULT_ENCODER_NAME}]"
)
@click.option("-r", "--rank", "r", default=8, show_default=True)
@click.option("--alpha", type=float, help="LoRA alpha. [default: twice the rank]")
@click.option("--target", "targets", multiple=True, help="Module; repeat. [default: all-linear]")
@click.option("--dropout", default=0.0, show_default=True)
@click.option("--rslora", "use_rslora", is_flag=True, help="Scale by alpha/sqrt(r).")
@click.option("--epochs", default=2.0, show_default=True, help="At most 3 without --force.")
@click.option("--learning-rate", default=1e-3, show_default=True)
@click.option("--schedule", type=click.Choice(["cosine", "linear"]), default="cosine")
@click.option("--batch-tokens", default=768, show_default=True, help="Most tokens of one step.")
@click.option("--seed", default=0, show_default=True)
@click.option("--threads", type=int, help="Processor threads. [default: torch's]")
@click.option("--validation-data", type=_FILE, help="classify: texts to tune on. [a tenth of DATA]")
@click.option(
    "--out-of-scope-label", default="oos", show_default=True, help="classify: that of no label."
)
@click.option(
    "--max-scope-loss",
    type=click.FloatRange(0, 0.5),
    help="classify: share of texts that the out-of-scope threshold may lose. [default: 0.003]",
)
@click.option("--replace", is_flag=True, help="Replace an output that exists.")
@click.option("--force", is_flag=True, help="Allow more epochs or data than are good.")
@home_option
@json_option
@click.pass_context
def train(
    context: click.Context,
    /,
    task: str,
    data: Path | None,
    output: Path | None,
    demo: str | None,
    test_data: Path | None,
    name: str | None,
    model: str | None,
    validation_data: Path | None,
    out_of_scope_label: str,
    max_scope_loss: float | None,
    replace: bool,
    home: Path,
    as_json: bool,
    **flags: Any,
) -> None:
    """Fine-tune a LoRA adapter on the conversations in DATA, or a classifier on texts.

    DATA is JSON lines, each {"messages": [{"role": "user", "content": "..."}, ...]}; to classify,
    each {"text": "...", "label": "..."}, or one JSON object in the shape of CLINC150. Progress goes
    to standard error; the report is beside the weights in OUTPUT/report.json.

    \b
    Examples:
      edgelora train letters.jsonl --output letters -r 16 --alpha 32
      edgelora train letters.jsonl -o letters --test-data held-out.jsonl --epochs 3
      edgelora train --task classify intents.jsonl -o intents -r 8
      edgelora train --demo email
      edgelora train --demo all --replace
    """
    if (demo is None) == (data is None):
        raise click.UsageError("give DATA, or --demo NAME")
    if task == "classify":
        if data is None or output is None:
            raise click.UsageError("--task classify takes DATA and --output DIRECTORY")
        _train_classifier(
            {key: value for key, value in flags.items() if is_given(context, key)},
            data,
            output,
            name=name,
            model_directory=home / "models" / (model or DEFAULT_ENCODER_NAME),
            validation_data=validation_data,
            test_data=test_data,
            out_of_scope_label=out_of_scope_label,
            max_scope_loss=max_scope_loss,
            replace=replace,
            as_json=as_json,
        )
        return
    # Imported only now: torch takes seconds, and wrong usage should not.
    from edgelora.cli.training import train_demos, train_one

    model_directory = home / "models" / (model or DEFAULT_NAME)
    if demo is not None:
        reports = train_demos(
            demo,
            model_directory,
            output or DEMO_DIRECTORY,
            threads=flags["threads"],
            replace=replace,
        )
    elif data is not None and output is not None:
        flags["alpha"] = 2.0 * flags["r"] if flags["alpha"] is None else flags["alpha"]
        flags["targets"] = flags["targets"] or ("all-linear",)
        reports = {
            name or output.name: train_one(
                data, test_data, output, name, model_directory, flags, replace=replace
            )
        }
    else:
        raise click.UsageError("give --output DIRECTORY")
    if as_json:
        print_json({name: asdict(report) for name, report in reports.items()})
        return
    for trained, report in reports.items():
        reduction = report.loss_reduction()
        held_out = "" if reduction is None else f", held-out loss {100 * reduction:.0f} % lower"
        tasks = "".join(f", {key} {value:.3f}" for key, value in report.task.items())
        click.echo(
            f"trained {trained}: {report.run.steps} steps in {report.run.wall_seconds:.0f} s, "
            f"{report.adapter.weights_bytes / 1e6:.1f} MB{held_out}{tasks}"
        )


def is_given(context: click.Context, name: str) -> bool:
    """Whether the caller set a flag, rather than its default."""
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _train_classifier(
    given: dict[str, Any],
    data: Path,
    output: Path,
    *,
    name: str | None,
    model_directory: Path,
    validation_data: Path | None,
    test_data: Path | None,
    out_of_scope_label: str,
    max_scope_loss: float | None,
    replace: bool,
    as_json: bool,
) -> None:
    from edgelora.cli.classifier_training import SETTINGS, summary, train_one
    from edgelora.toolchain.classification.train import ClassificationJob

    if others := sorted(given.keys() - SETTINGS):
        flags = ", ".join(f"--{one.removeprefix('use_').replace('_', '-')}" for one in others)
        raise click.UsageError(f"{flags}: not for --task classify")
    if max_scope_loss is not None:
        given["max_scope_loss"] = max_scope_loss
    job = ClassificationJob(
        name=name or output.name,
        model_directory=model_directory,
        train_file=data,
        validation_file=validation_data,
        test_file=test_data,
        out_of_scope=out_of_scope_label,
    )
    report = train_one(job, output, given, replace=replace)
    if as_json:
        print_json({report.name: asdict(report)})
    else:
        click.echo(summary(report))
