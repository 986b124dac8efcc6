"""`edgelora embed`: texts as vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgelora.cli.encoding_input import batches
from edgelora.cli.node_call import call_node
from edgelora.cli.output import print_json, printable
from edgelora.cli.places import connection_options, json_option

if TYPE_CHECKING:
    from edgelora.client import EdgeLoraClient

_NUM_SHOWN = 4


@click.command()
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("-a", "--adapter", default="", help="An alias or a digest. Default: the base model.")
@connection_options
@json_option
def embed(texts: tuple[str, ...], adapter: str, as_json: bool, **where: Any) -> None:
    """Turn each TEXT, or each line of standard input, into a vector of length 1.

    The product of two of them is how much their texts mean the same: 1 for all, 0 for nothing.
    Needs a node with an encoder: `edgelora up --encoder`.

    \b
    Examples:
      edgelora embed --tenant office "The heating is cold." --json
      edgelora embed --tenant office --json < sentences.txt
    """

    async def run(client: EdgeLoraClient) -> list[dict[str, Any]]:
        found = []
        for batch in batches(texts):
            response = await client.embed(batch, adapter=adapter)
            for text, each in zip(batch, response.embeddings, strict=True):
                values = list(each.values)
                found.append({"text": text, "embedding": values})
                if not as_json:
                    first = " ".join(f"{value:.3f}" for value in values[:_NUM_SHOWN])
                    click.echo(printable(f"{first} ... ({len(values)} numbers)  {text}"))
        return found

    found = call_node(where, run)
    if as_json:
        print_json({"embeddings": found})
