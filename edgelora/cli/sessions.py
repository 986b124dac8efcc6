"""`edgelora sessions`: what the node keeps of a tenant's conversations."""

from __future__ import annotations

from typing import Any

import click

from edgelora.cli.node_call import call_node
from edgelora.cli.output import counted, print_json
from edgelora.cli.places import connection_options, json_option


@click.group()
def sessions() -> None:
    """Forget conversations that the node keeps warm.

    A request with a session name leaves what was computed of its conversation on the node, so that
    the next one need not compute it again. It goes by itself after a while.
    """


@sessions.command()
@click.argument("name", required=False, default="")
@connection_options
@json_option
def forget(name: str, as_json: bool, **where: Any) -> None:
    """Drop what is kept of a conversation, or of all of the tenant's without NAME.

    \b
    Examples:
      edgelora sessions forget kitchen --tenant home
      edgelora sessions forget --tenant home
    """
    num_forgotten = call_node(where, lambda client: client.forget_session(name))
    if as_json:
        print_json({"num_forgotten": num_forgotten})
    else:
        click.echo(f"forgot {counted(num_forgotten, 'conversation')}")
