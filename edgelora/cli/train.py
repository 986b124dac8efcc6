"""`edgelora train`: fine-tunes an adapter, with its settings as flags."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from edgelora.cli.adapter_versions import parse_ranks
from edgelora.cli.demo_cast import DEMO_DIRECTORY
from edgelora.cli.output import counted, print_json
from edgelora.cli.places import home_option, json_option
from services.chassis.base_model import DEFAULT_ENCODER_NAME, DEFAULT_NAME

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_AUTO = "auto"


def _parse_rank(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | str | None:
    if value is None or value == _AUTO:
        return value
    if not (value.isascii() and value.isdigit() and len(value) <= 4):
        raise click.BadParameter("give a whole number, or auto")
    return int(value)


@click.command()
@click.argument("data", type=_FILE, required=False)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Directory to be made. [demos: demo/]"
)
@click.option(
    "--task", type=click.Choice(["generate", "classify"]), default="generate", show_default=True
)
@click.option("--demo", metavar="NAME|all", help="Train a demo adapter as it is shipped.")
@click.option("--test-data", type=_FILE, help="Held-out conversations, to measure quality on.")
@click.option(
    "--held-out",
    type=click.FloatRange(0, 0.5),
    default=0.1,
    show_default=True,
    help="Without --test-data: share of DATA kept for that.",
)
@click.option("--name", help="The adapter's name. [default: the output's]")
@click.option(
    "--model", help=f"Prepared model. [default: {DEFAULT_NAME}; classify: {DEFAULT_ENCODER_NAME}]"
)
@click.option(
    "--base-training-tokens", type=int, help="Tokens it was trained on. [default: as published]"
)
@click.option(
    "--ranks",
    callback=parse_ranks,
    metavar="RANK,...",
    help="Train the highest and keep versions of the others. [default: 64,32,16]",
)
@click.option(
    "-r",
    "--rank",
    callback=_parse_rank,
    metavar="RANK|auto",
    help="One rank alone; auto: one for each module, by its energy, and --ranks beside.",
)
@click.option("--rank-budget", help="With auto: r16 (as rank 16 has), 25%, 5M. [default: r16]")
@click.option("--train-each", is_flag=True, help="Train every rank by itself instead of cutting.")
@click.option("--alpha", type=float, help="LoRA alpha. [default: twice the rank]")
@click.option("--target", "targets", multiple=True, help="Module; repeat. [default: all-linear]")
@click.option("--dropout", default=0.0, show_default=True)
@click.option("--rslora", "use_rslora", is_flag=True, help="Scale by alpha/sqrt(r).")
@click.option("--epochs", default=2.0, show_default=True, help="At most 3 without --force.")
@click.option("--learning-rate", default=1e-3, show_default=True)
@click.option("--schedule", type=click.Choice(["cosine", "linear"]), default="cosine")
@click.option("--early-stop", type=int, metavar="N", help="Stop after N misses; keep the best.")
@click.option("--batch-tokens", default=768, show_default=True, help="Most tokens of one step.")
@click.option("--max-example-tokens", default=1024, show_default=True, help="Most of an example.")
@click.option("--precision", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto")
@click.option("--gradient-checkpointing", is_flag=True, help="Less memory, about a third slower.")
@click.option("--seed", default=0, show_default=True)
@click.option("--threads", type=int, help="Processor threads. [default: torch's]")
@click.option("--checkpoint-steps", default=25, show_default=True, help="Between two checkpoints.")
@click.option(
    "--measure", type=click.Choice(["exact-match"]), help="Measure the answers themselves too."
)
@click.option("--description", default="A LoRA adapter.", help="For its card.")
@click.option("--licence", default="unknown", show_default=True, help="SPDX identifier.")
@click.option(
    "--permission",
    multiple=True,
    help="What it may be used for, declared; repeat. [default: 'commands: none']",
)
@click.option("--example", multiple=True, help="Prompt for its card; repeat.")
@click.option("--no-examples", is_flag=True, help="Quote no prompts of DATA in its card.")
@click.option("--validation-data", type=_FILE, help="classify: texts to tune on. [a tenth of DATA]")
@click.option(
    "--out-of-scope-label", default="oos", show_default=True, help="classify: that of no label."
)
@click.option(
    "--max-scope-loss",
    type=click.FloatRange(0, 0.5),
    help="classify: share of texts that the out-of-scope threshold may lose. [default: 0.001]",
)
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped or killed.")
@click.option("--replace", is_flag=True, help="Replace an output, or an unfinished run, of before.")
@click.option("--force", is_flag=True, help="Allow more epochs, data or memory than are good.")
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

    DATA is JSON lines or a JSON array: {"messages": [{"role": "user", "content": "..."}, ...]},
    {"prompt", "completion"}, {"instruction", "input", "output"} or {"conversations": [{"from",
    "value"}, ...]}. OUTPUT becomes a PEFT directory, with versions of the lower ranks in it, a
    card, and a report with pictures; `edgelora adapters add OUTPUT` registers all of it. Progress
    goes to standard error. Ctrl-C keeps what was learned for --resume.

    To classify, DATA is JSON lines, each {"text": "...", "label": "..."}, or one JSON object in the
    shape of CLINC150.

    \b
    Examples:
      edgelora train letters.jsonl -o letters
      edgelora train letters.jsonl -o letters --resume
      edgelora train letters.jsonl -o letters --test-data held-out.jsonl --epochs 3 --early-stop 2
      edgelora train letters.jsonl -o letters --rank auto --rank-budget r16
      edgelora train letters.jsonl -o letters --rank 16 --alpha 32
      edgelora train --task classify intents.jsonl -o intents -r 8
      edgelora train --demo all --replace
    """
    if (demo is None) == (data is None):
        raise click.UsageError("give DATA, or --demo NAME")
    if task == "classify":
        if data is None or output is None:
            raise click.UsageError("--task classify takes DATA and --output DIRECTORY")
        resume, description = flags.pop("resume"), flags.pop("description")
        card = {
            "licence": flags.pop("licence"),
            "permissions": flags.pop("permission") or ("commands: none",),
            "examples": flags.pop("example"),
            "quotes_data": not flags.pop("no_examples"),
        }
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
            description=description if is_given(context, "description") else "Classifies texts.",
            card=card,
            replace=replace,
            resume=resume,
            as_json=as_json,
        )
        return
    if isinstance(flags["rank"], int) and flags["ranks"]:
        raise click.UsageError("give --rank for one rank, or --ranks for several")
    if flags["rank_budget"] is not None and flags["rank"] != _AUTO:
        raise click.UsageError("--rank-budget needs --rank auto")
    # Imported only now: torch takes seconds, and wrong usage should not.
    from edgelora.cli.training import train_demos, train_one

    model_directory = home / "models" / (model or DEFAULT_NAME)
    if demo is not None:
        place, threads = output or DEMO_DIRECTORY, flags["threads"]
        reports = train_demos(demo, model_directory, place, threads=threads, replace=replace)
    elif data is not None and output is not None:
        flags |= {"test_data": test_data, "name": name}
        report = train_one(data, output, model_directory, flags, replace=replace)
        reports = {report.adapter.name: report}
    else:
        raise click.UsageError("give --output DIRECTORY")
    if as_json:
        print_json({name: asdict(report) for name, report in reports.items()})
        return
    for trained, report in reports.items():
        reduction = report.loss_reduction()
        held_out = "" if reduction is None else f", held-out loss {100 * reduction:.0f} % lower"
        tasks = "".join(f", {key} {value:.3f}" for key, value in report.task.items())
        versions = sum(one.directory is not None for one in report.ranks) - 1
        lower = f", {counted(versions, 'version')} of lower rank" if versions else ""
        click.echo(
            f"trained {trained}: {report.run.steps} steps in {report.run.wall_seconds:.0f} s, "
            f"{report.adapter.weights_bytes / 1e6:.1f} MB{lower}{held_out}{tasks}"
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
    description: str,
    card: dict[str, Any],
    replace: bool,
    resume: bool,
    as_json: bool,
) -> None:
    from edgelora.cli.classifier_training import SETTINGS, summary, train_one
    from edgelora.toolchain.classification.train import ClassificationJob

    if isinstance(given.get("rank"), int):
        given["r"] = given.pop("rank")
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
        description=description,
        **card,
    )
    report = train_one(job, output, given, replace=replace, resume=resume)
    if as_json:
        print_json({report.name: asdict(report)})
    else:
        click.echo(summary(report))
