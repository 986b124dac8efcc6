"""`python -m bench NAME [--json] [--quick]`: runs one benchmark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from bench.registry import BENCHMARKS, run_and_print
from bench.result import BenchOptions, default_model_directory


@click.command()
@click.argument("name", type=click.Choice(list(BENCHMARKS)))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quick", is_flag=True, help="Under a minute on two cores; rougher figures.")
@click.option("--seed", default=1, show_default=True)
@click.option("--model", type=click.Path(path_type=Path), help="Prepared model directory.")
@click.option("--address", help="A running gateway; without it a stack is started.")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="API key for --address.")
def main(
    name: str,
    as_json: bool,
    quick: bool,
    seed: int,
    model: Path | None,
    address: str | None,
    api_key_file: Path | None,
) -> None:
    """Runs the benchmark NAME; progress goes to standard error."""
    options = BenchOptions(
        quick=quick,
        seed=seed,
        model_directory=model or default_model_directory(os.environ),
        address=address,
        api_key_file=api_key_file,
        progress=lambda line: click.echo(line, err=True),
    )
    sys.exit(run_and_print(name, options, as_json=as_json))


if __name__ == "__main__":
    main(prog_name="python -m bench")
