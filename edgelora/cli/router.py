"""`edgelora router`: trains the router behind `auto`, and judges it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgelora.cli.demo_cast import DEMO_DIRECTORY
from edgelora.cli.errors import CliError
from edgelora.cli.output import counted, print_json, print_table
from edgelora.cli.places import home_option, json_option, layout_of
from services.chassis.base_model import DEFAULT_NAME

if TYPE_CHECKING:
    from edgelora.toolchain.router_evaluation import RouterEvaluation
    from edgelora.toolchain.router_sources import Source

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PLACE = click.Path(exists=True, file_okay=False, path_type=Path)
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group()
def router() -> None:
    """Train the router that chooses adapters for `auto`, and judge it."""


def _source_options(command: CommandT) -> CommandT:
    for option in (
        click.option("--model", default=DEFAULT_NAME, show_default=True, help="Prepared model."),
        click.option("--threads", type=click.IntRange(min=1), help="Processor threads."),
        click.option(
            "--out-of-scope", multiple=True, type=_FILE, help="Texts no adapter is for, one a line."
        ),
        click.option(
            "--data", "data", multiple=True, metavar="NAME=FILE", help="An adapter's data."
        ),
        click.option("--adapter", "named", multiple=True, metavar="NAME=DIR", help="One more."),
        click.argument("adapters", nargs=-1, type=_PLACE),
    ):
        command = option(command)
    return command


@router.command()
@_source_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="[default: HOME/router/router.safetensors]",
)
@click.option("--samples", default=100, show_default=True, help="Texts to measure of each domain.")
@click.option("--steps", default=2000, show_default=True)
@click.option("--learning-rate", default=1e-2, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--if-changed", is_flag=True, help="Leave when nothing has changed since.")
@click.option("--unseen", is_flag=True, help="Also train without each adapter, and report on it.")
@home_option
@json_option
def train(
    adapters: Sequence[Path],
    named: Sequence[str],
    data: Sequence[str],
    out_of_scope: Sequence[Path],
    model: str,
    threads: int | None,
    output: Path | None,
    samples: int,
    if_changed: bool,
    unseen: bool,
    home: Path,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train a router for the adapters in ADAPTERS: their directories, or one that holds them.

    An adapter needs its card.json, and data like those it was trained on: data/train.jsonl in its
    directory, or --data NAME=FILE. What each adapter is good for is measured on them, with base and
    adapters frozen, and kept: only what is new is measured again. Without ADAPTERS: the demos.

    \b
    Examples:
      edgelora router train
      edgelora router train my-adapters --out-of-scope small-talk.txt
      edgelora router train --adapter mail=a --data mail=mail.jsonl ... --if-changed
    """
    sources = _sources(adapters, named, data, "train.jsonl")
    # Imported only now: torch takes seconds, and wrong usage should not.
    from edgelora.toolchain.router_fit import FitOptions
    from edgelora.toolchain.router_sources import read_texts
    from edgelora.toolchain.router_training import RouterJob, is_current, train_router

    target = output or layout_of(home).router_file
    job = RouterJob(
        sources=sources,
        out_of_scope=read_texts(out_of_scope),
        model_directory=home / "models" / model,
        losses_directory=home / "router" / "losses",
        samples=samples,
        threads=threads,
        options=FitOptions(**flags),
    )
    if if_changed and is_current(job, target):
        if as_json:
            print_json({"changed": False})
        else:
            click.echo("nothing has changed since this router was trained")
        return
    report = train_router(job, target, with_unseen=unseen)
    if as_json:
        print_json({"changed": True, **asdict(report)})
        return
    print_table(
        ["adapter", "texts", "measured", "loss", "of the base", "of the next best"],
        [
            [
                one.name,
                one.texts,
                one.measured,
                f"{one.adapter_loss:.3f}",
                f"{one.base_loss:.3f}",
                f"{one.others_loss:.3f}",
            ]
            for one in report.domains
        ],
        "",
    )
    for name, share in (report.unseen_accuracy or {}).items():
        click.echo(f"without {name}: {100 * share:.1f} % of its texts are routed to it by its card")
    click.echo(
        f"trained {target} ({report.file_bytes / 1e3:.0f} kB): measured "
        f"{report.losses_measured} new losses in {report.measure_seconds:.0f} s "
        f"({report.precision}), fitted in {report.fit_seconds:.0f} s"
    )


@router.command("eval")
@_source_options
@click.option(
    "--router", "file", type=_FILE, help="Router file. [default: HOME's, else the one that ships]"
)
@click.option("--samples", default=100, show_default=True, help="Texts to measure of each domain.")
@home_option
@json_option
def evaluate(
    adapters: Sequence[Path],
    named: Sequence[str],
    data: Sequence[str],
    out_of_scope: Sequence[Path],
    model: str,
    threads: int | None,
    file: Path | None,
    samples: int,
    home: Path,
    as_json: bool,
) -> None:
    """Judge a router on data it was not trained on: data/test.jsonl of each adapter, or --data.

    Tells how many texts go to the adapter of their domain, what the choices cost in measured loss
    beside other policies, and how fast they are. Without ADAPTERS: the demos.
    """
    sources = _sources(adapters, named, data, "test.jsonl")
    from edgelora.routing import Router

    path = file or layout_of(home).router_file
    try:
        chosen = Router.load(path) if file or path.exists() else Router.default()
    except FileNotFoundError:
        raise CliError("there is no router yet: `edgelora router train` makes one") from None
    # Imported only now, as above.
    from edgelora.toolchain.router_evaluation import evaluate_router
    from edgelora.toolchain.router_sources import read_texts

    found = evaluate_router(
        chosen,
        sources,
        read_texts(out_of_scope),
        model_directory=home / "models" / model,
        losses_directory=home / "router" / "losses",
        samples=samples,
        threads=threads,
    )
    if as_json:
        print_json(asdict(found))
    else:
        _show(found)


def _show(found: RouterEvaluation) -> None:
    losses = found.losses
    print_table(
        ["policy", "loss"],
        [
            ["random", f"{losses.random:.3f}"],
            [f"best single ({losses.best_single_name})", f"{losses.best_single:.3f}"],
            ["task prior", f"{losses.task_prior:.3f}"],
            ["router", f"{losses.router:.3f}"],
            ["oracle", f"{losses.oracle:.3f}"],
        ],
        "",
    )
    if losses.gain is not None:
        click.echo(f"of what choosing can gain: {100 * losses.gain:.1f} %")
    click.echo(f"right adapter: {100 * found.accuracy:.1f} % of {counted(found.texts, 'text')}")
    if (outside := found.out_of_scope) is not None:
        click.echo(f"out of scope: {100 * outside.recall:.1f} % of {outside.texts} to the base")
    timing = found.decision
    click.echo(
        f"a decision among {timing.candidates}: {timing.p50_ms:.2f} ms, p99 {timing.p99_ms:.2f} ms"
    )


def _sources(
    places: Sequence[Path], named: Sequence[str], data: Sequence[str], data_file: str
) -> list[Source]:
    from edgelora.toolchain.router_sources import find_adapters, read_sources

    if not places and not named:
        places = [DEMO_DIRECTORY]
    adapters = find_adapters(places) | _pairs(named, "--adapter")
    files = {
        name: directory / "data" / data_file
        for name, directory in adapters.items()
        if (directory / "data" / data_file).is_file()
    }
    return read_sources(adapters, files | _pairs(data, "--data"))


def _pairs(texts: Sequence[str], option: str) -> dict[str, Path]:
    pairs: dict[str, Path] = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not (name and separator and path):
            raise click.UsageError(f"{option} needs NAME=PATH")
        if name in pairs:
            raise CliError(f"{option} names one adapter twice: leave one")
        pairs[name] = Path(path)
    return pairs
