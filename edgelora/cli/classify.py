"""`edgelora classify`: which label of a classifier each text belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from edgelora.cli.encoding_input import batches
from edgelora.cli.node_call import call_node
from edgelora.cli.output import print_json, printable
from edgelora.cli.places import connection_options, json_option
from services.chassis.encoding_limits import MAX_TEXTS, MAX_TOLD_LABELS, MAX_TOP_LABELS

if TYPE_CHECKING:
    from edgelora.client import EdgeLoraClient
    from edgelora.v1.encoding_pb2 import Classification

_OUT_OF_SCOPE = "out of scope"


@click.command()
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("-a", "--adapter", required=True, help="The classifier: an alias or a digest.")
@click.option(
    "--top",
    default=1,
    show_default=True,
    type=click.IntRange(1, MAX_TOP_LABELS),
    help="Labels of each text.",
)
@connection_options
@json_option
def classify(texts: tuple[str, ...], adapter: str, top: int, as_json: bool, **where: Any) -> None:
    """Say which label each TEXT belongs to, or each line of standard input.

    Needs a node with an encoder: `edgelora up --encoder`.

    \b
    Examples:
      edgelora classify -a intents --tenant office "What is on my account?"
      edgelora classify -a intents --tenant office --top 3 --json < questions.txt
    """

    async def run(client: EdgeLoraClient) -> list[dict[str, Any]]:
        found = []
        for batch in batches(texts, min(MAX_TEXTS, MAX_TOLD_LABELS // top)):
            response = await client.classify(batch, adapter=adapter, top_labels=top)
            for text, each in zip(batch, response.classifications, strict=True):
                found.append(_document(text, each))
                if not as_json:
                    click.echo(_line(text, each))
        return found

    found = call_node(where, run)
    if as_json:
        print_json({"classifications": found})


def _document(text: str, found: Classification) -> dict[str, Any]:
    return {
        "text": text,
        "is_out_of_scope": found.is_out_of_scope,
        "labels": [{"label": each.label, "probability": each.probability} for each in found.labels],
    }


def _line(text: str, found: Classification) -> str:
    return printable("  ".join([*_words(found), text]))


def _words(found: Classification) -> Iterator[str]:
    if found.is_out_of_scope:
        yield _OUT_OF_SCOPE
    for each in found.labels:
        yield f"{each.label} {each.probability:.1%}"
