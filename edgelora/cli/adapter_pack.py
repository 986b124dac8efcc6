"""`edgelora adapters pack`: an adapter as a package that registries, servers and media carry."""

from __future__ import annotations

from pathlib import Path

import click

from edgelora.adapter_package import is_tag, write_package
from edgelora.cli.output import print_json
from edgelora.cli.places import json_option


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--tag", default="latest", show_default=True, help="The package's tag.")
@json_option
def pack(directory: Path, output: Path, tag: str, as_json: bool) -> None:
    """Write the PEFT adapter in DIRECTORY to OUTPUT as an OCI image layout.

    \b
    Nodes install it from a directory, a medium or a static server as it is:
      edgelora adapters pack ./my-adapter /media/stick/mail
      edgelora adapters install usb/mail --tenant office
    Registry tools bring it into a registry:
      skopeo copy oci:./mail:latest docker://REGISTRY/office/mail:v1
    """
    if not is_tag(tag):
        raise click.UsageError("a tag has 1 to 128 letters, digits, '.', '_' and '-'")
    digest = write_package(directory, output, tag)
    if as_json:
        print_json({"digest": digest, "tag": tag})
    else:
        click.echo(f"packed {digest} as {output}, tag {tag}")
