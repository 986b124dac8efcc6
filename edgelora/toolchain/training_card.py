"""The card `README.md` and the report `report.md` of a training run, from its record."""

from __future__ import annotations

from pathlib import Path

from edgelora.toolchain.card_words import plain_line, quoted_lines, yaml_text
from edgelora.toolchain.training_report import RankFacts, TrainingReport

CARD_FILE = "README.md"
REPORT_FILE = "report.md"


def write_card(
    report: TrainingReport, directory: Path, description: str, examples: list[str]
) -> None:
    """Writes the card: what the adapter is for, how it was made, what was measured."""
    adapter, data, run = report.adapter, report.data, report.run
    share = (
        "share of the base's data unknown"
        if data.data_share is None
        else f"{100 * data.data_share:.1e} % of the base's {data.base_training_tokens:.0e} tokens"
    )
    lines = [
        "---",
        f"base_model: {adapter.base_model}",
        "library_name: peft",
        f"license: {yaml_text(adapter.licence)}",
        "---",
        "",
        f"# {plain_line(adapter.name)}",
        "",
        plain_line(description),
        "",
        "| | |",
        "|---|---|",
        f"| base model | {adapter.base_model} ({adapter.base_digest}) |",
        f"| LoRA | r={adapter.r}, alpha={adapter.alpha:g}"
        f"{', rsLoRA' if adapter.use_rslora else ''}, on {', '.join(adapter.targets)} |",
        f"| size | {adapter.parameters} parameters, {adapter.weights_bytes / 1e6:.2f} MB (fp16) |",
        f"| training data | {data.train_examples} examples, {data.train_tokens} tokens, "
        f"{data.train_loss_tokens} of them written by the assistant; {share} |",
        f"| hash of the data | sha256:{data.train_sha256} |",
        f"| training | {run.epochs:g} epochs, {run.steps} steps, peak learning rate "
        f"{run.learning_rate:g} ({run.schedule}), seed {run.seed}, {run.precision}, "
        f"{run.wall_seconds:.0f} s on {run.threads} threads |",
        f"| licence | {plain_line(adapter.licence)} |",
        f"| permissions | {plain_line(', '.join(adapter.permissions))} |",
    ]
    if report.held_out_loss:
        lines.append(
            f"| held-out loss ({data.test_examples} examples) | base "
            f"{report.held_out_loss['base']:.3f}, adapter {report.held_out_loss['adapter']:.3f} "
            f"({100 * (report.loss_reduction() or 0):.0f} % lower) |"
        )
    for name, value in report.task.items():
        lines.append(f"| {name.replace('_', ' ')} | {100 * value:.1f} % |")
    if len(report.ranks) > 1:
        lines += ["", *_rank_table(report)]
    if examples:
        lines += ["", "Prompts it is meant for:", ""]
        lines += quoted_lines(examples)
    lines += ["", "The whole record is in `report.json`.", ""]
    (directory / CARD_FILE).write_text("\n".join(lines), encoding="utf-8")


def write_report(report: TrainingReport, directory: Path, pictures: list[str]) -> None:
    """Writes the report: everything that was set, and everything that was measured."""
    adapter, data, run = report.adapter, report.data, report.run
    settings = {
        "base model": f"{adapter.base_model}, {adapter.base_digest}",
        "training data": f"{data.train_examples} examples, {data.train_tokens} tokens, "
        f"sha256:{data.train_sha256}",
        "test data": _test_data(report),
        "epochs": f"{run.epochs:g} (at most 3)",
        "share of the base's training data": "unknown"
        if data.data_share is None
        else f"{100 * data.data_share:.1e} % (at most 3 %)",
        "optimizer": f"AdamW, peak learning rate {run.learning_rate:g}, {run.schedule}, warm-up "
        f"{100 * run.warmup_share:g} %, weight decay {run.weight_decay:g}, gradients clipped at "
        f"{run.max_grad_norm:g}, {run.batch_tokens} tokens a step",
        "seed": str(run.seed),
        "computed in": run.device,
        "gradient checkpointing": "yes" if run.gradient_checkpointing else "no",
        "steps": _steps(report),
        "time": f"{run.wall_seconds:.0f} s",
        "time on two cores": "unknown"
        if run.two_core_seconds is None
        else f"{run.two_core_seconds:.0f} s"
        + ("" if run.threads == 2 else f", scaled from the {run.threads} it had"),
        "packages": ", ".join(f"{name} {version}" for name, version in report.versions.items()),
    }
    lines = [f"# Training of {plain_line(adapter.name)}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in settings.items()]
    lines += ["", "## Quality by rank", "", *_rank_table(report), ""]
    lines += [f"![{picture}]({picture})\n" for picture in pictures]
    (directory / REPORT_FILE).write_text("\n".join(lines), encoding="utf-8")


def _rank_table(report: TrainingReport) -> list[str]:
    measures = list(report.ranks[0].task)
    heads = ["version", "highest rank", "parameters", "MB", "cut away", "held-out loss", *measures]
    base = report.held_out_loss.get("base")
    base_task = [_percent(report.task.get(f"base_{name}")) for name in measures]
    rows = [["base model", "", "", "", "", _loss(base), *base_task]]
    rows += [_row(one, measures) for one in report.ranks]
    return [
        f"| {' | '.join(name.replace('_', ' ') for name in heads)} |",
        "|---" * len(heads) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _row(one: RankFacts, measures: list[str]) -> list[str]:
    place = f"{one.name}, {one.origin}"
    return [
        place if one.directory else f"{place} (not kept)",
        str(one.rank),
        str(one.parameters),
        f"{one.weights_bytes / 1e6:.2f}",
        _percent(one.relative_error),
        _loss(one.held_out_loss),
        *(_percent(one.task[name]) for name in measures),
    ]


def _test_data(report: TrainingReport) -> str:
    data = report.data
    if not data.test_examples:
        return "none"
    where = (
        f"sha256:{data.test_sha256}"
        if data.test_sha256
        else f"{100 * data.held_out_share:g} % of the training file, drawn by the seed"
    )
    judged = "; early stopping looked at them too" if report.run.early_stop else ""
    return f"{data.test_examples} examples, {where}{judged}"


def _steps(report: TrainingReport) -> str:
    run = report.run
    text = str(run.steps)
    if run.stopped_early:
        text += ", stopped early"
    if run.best_step is not None:
        text += f", the state of step {run.best_step} kept"
    if run.resumed_at:
        text += f", gone on after step {', '.join(map(str, run.resumed_at))}"
    return text


def _loss(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
