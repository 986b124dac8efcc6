"""`edgelora adapters export`: an adapter in the form that other programs read."""

from __future__ import annotations

from pathlib import Path

import click

from edgelora.cli.output import print_json
from edgelora.cli.places import home_option, json_option

_GGUF = "gguf"


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(("peft", _GGUF)),
    required=True,
    help="peft: a directory. gguf: a file for llama.cpp.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="What to write."
)
@click.option(
    "--model",
    metavar="NAME",
    help="The prepared model it is for.  [default: the default decoder or encoder]",
)
@click.option("--half", is_flag=True, help="gguf: in float16, half as large and rounded.")
@click.option("--force", is_flag=True, help="Replace what was exported there before.")
@home_option
@json_option
def export(
    directory: Path,
    form: str,
    output: Path,
    model: str | None,
    half: bool,
    force: bool,
    home: Path,
    as_json: bool,
) -> None:
    """Write the adapter in DIRECTORY for other programs.

    DIRECTORY is on this machine: a node hands no adapter's files out again. It is checked as a node
    checks it, and what is written computes the same: by PEFT, or by llama.cpp over a GGUF of the
    same model.

    \b
    Examples:
      edgelora adapters export ./mail --format gguf -o mail.gguf
      llama-cli -m SmolLM2-135M-Instruct.gguf --lora mail.gguf
      edgelora adapters export ./mail/rank-16 --format peft -o ./mail-16
    """
    if half and form != _GGUF:
        raise click.UsageError("--half is for --format gguf")
    # Only now: --help takes no numpy.
    from edgelora.toolchain.adapter_export import (
        default_model,
        export_gguf,
        export_peft,
        read_local_adapter,
    )

    name = model or default_model(directory)
    adapter = read_local_adapter(directory, home / "models" / name)
    if form == _GGUF:
        export_gguf(adapter, output, half=half, force=force)
    else:
        export_peft(adapter, output, force=force)
    if as_json:
        print_json(
            {
                "format": form,
                "output": str(output),
                "base_digest": adapter.base.digest,
                "modules": len(adapter.weights.pairs),
                "max_rank": adapter.weights.max_rank,
            }
        )
        return
    click.echo(
        f"exported {len(adapter.weights.pairs)} modules of rank up to "
        f"{adapter.weights.max_rank} for {adapter.base.name} to {output}"
    )
