"""`edgelora adapters warmup`: what the node learns of a tenant's habits."""

from __future__ import annotations

from typing import Any

import click

from edgelora.cli.messages import message_document
from edgelora.cli.node_call import call_node
from edgelora.cli.output import counted, print_json, print_table
from edgelora.cli.places import connection_options, json_option
from edgelora.client import EdgeLoraClient
from edgelora.errors import AdapterNotFoundError


@click.command()
@click.argument("action", type=click.Choice(["show", "on", "off", "forget"]), default="show")
@connection_options
@json_option
def warmup(action: str, as_json: bool, **where: Any) -> None:
    """Load likely adapters ahead of use: show, on, off or forget.

    The node learns when and after which other one each adapter is used, and loads the likely ones
    before they are asked for. `off` also stops learning; `forget` drops what was learnt.

    \b
    Examples:
      edgelora adapters warmup --tenant office
      edgelora adapters warmup off --tenant office
      edgelora adapters warmup forget --tenant office
    """
    switch = {"on": True, "off": False}.get(action)

    async def ask(client: EdgeLoraClient) -> tuple[dict[str, Any], dict[str, str]]:
        state = await client.set_warm_up(is_enabled=switch, forget=action == "forget")
        document = message_document(state)
        if as_json:
            return document, {}
        digests = [forecast["digest"] for forecast in document["forecasts"]]
        return document, {digest: await _name(client, digest) for digest in digests}

    document, names = call_node(where, ask)
    if as_json:
        print_json(document)
        return
    switched = "on" if document["is_enabled"] else "off"
    click.echo(f"warm-ups are {switched}; learnt from {counted(document['num_uses'], 'use')}")
    if document["forecasts"]:
        rows = [
            (
                names[each["digest"]],
                f"{each['probability'] * 100:.0f} %",
                ", ".join(each["reasons"]),
            )
            for each in document["forecasts"]
        ]
        print_table(("adapter", "soon", "because of"), rows, "")


async def _name(client: EdgeLoraClient, digest: str) -> str:
    """The adapter's aliases, or its digest."""
    try:
        found = await client.get_adapter(digest)
    except AdapterNotFoundError:
        return digest
    return ", ".join(found.adapter.aliases) or digest
