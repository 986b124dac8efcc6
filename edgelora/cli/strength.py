"""`edgelora strength`: changes how strong an adapter of a running answer is."""

from __future__ import annotations

from typing import Any

import click

from edgelora.cli.node_call import call_node
from edgelora.cli.output import print_json
from edgelora.cli.places import connection_options, json_option


@click.command()
@click.argument("request_id")
@click.argument("strength", type=click.FloatRange(0, 2))
@click.option(
    "--adapter",
    "-a",
    metavar="NAME",
    default="",
    help="Alias or digest, as the request named it; not needed where there is one.",
)
@connection_options
@json_option
def strength(request_id: str, strength: float, adapter: str, as_json: bool, **where: Any) -> None:
    """Change an adapter's strength in a running answer, from its next token on.

    REQUEST_ID is what `edgelora chat --show-id` shows; STRENGTH is 0 (the base model) to 2.

    \b
    Example:
      edgelora strength 1f0c... 0.3 --tenant office
    """
    strengths = call_node(
        where, lambda client: client.set_strength(request_id, strength, adapter=adapter)
    )
    if as_json:
        print_json({"adapters": strengths})
        return
    for digest, value in strengths.items():
        click.echo(f"{digest}  {value:g}")
