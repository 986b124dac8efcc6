"""`edgelora adapters`: a tenant's adapters."""

from __future__ import annotations

from typing import Any

import click

from edgelora.cli.adapter_arrival import add, install
from edgelora.cli.adapter_export import export
from edgelora.cli.adapter_listing import list_
from edgelora.cli.adapter_lookup import find_adapter
from edgelora.cli.adapter_pack import pack
from edgelora.cli.adapter_view import detail_rows
from edgelora.cli.messages import adapter_details, adapter_document, alias_document
from edgelora.cli.node_call import call_node
from edgelora.cli.output import print_json, print_table
from edgelora.cli.places import connection_options, json_option
from edgelora.cli.warmup import warmup
from edgelora.client import EdgeLoraClient


@click.group()
def adapters() -> None:
    """Add, install, list, show, alias, pin, pack, export and remove adapters.

    \b
    Examples:
      edgelora adapters add ./my-adapter --alias mail --tenant office
      edgelora adapters install shop/letters:v2 --alias letters --tenant office
      edgelora adapters list --tenant office
      edgelora adapters show mail --tenant office
      edgelora adapters alias post mail --tenant office
      edgelora adapters pin mail --tenant office
      edgelora adapters warmup --tenant office
      edgelora adapters remove letters --tenant office
    """


for _command in (add, install, list_, pack, export, warmup):
    adapters.add_command(_command)
adapters.add_command(add, "register")


@adapters.command()
@click.argument("adapter")
@connection_options
@json_option
def show(adapter: str, as_json: bool, **where: Any) -> None:
    """Show everything about ADAPTER, an alias or digest.

    Its serving form and what that costs, where it came from, and how requests found it.

    \b
    Examples:
      edgelora adapters show mail --tenant office
      edgelora adapters show mail --tenant office --json
    """
    document = adapter_details(call_node(where, lambda client: find_adapter(client, adapter)))
    if as_json:
        print_json(document)
    else:
        print_table(("field", "value"), detail_rows(document), "")


@adapters.command()
@click.argument("name")
@click.argument("adapter")
@click.option(
    "--expect",
    type=click.IntRange(min=0),
    metavar="GENERATION",
    help="Only if the alias is at this generation; 0: is new.",
)
@connection_options
@json_option
def alias(name: str, adapter: str, expect: int | None, as_json: bool, **where: Any) -> None:
    """Let the alias NAME point to ADAPTER, a digest or another alias.

    \b
    Examples:
      edgelora adapters alias post mail --tenant office
      edgelora adapters alias post letters --expect 1 --tenant office
    """

    async def set_alias(client: EdgeLoraClient) -> Any:
        digest = adapter
        if not adapter.startswith("sha256:"):
            digest = (await find_adapter(client, adapter)).adapter.digest
        return await client.set_adapter_alias(name, digest, expected_generation=expect)

    document = alias_document(call_node(where, set_alias))
    if as_json:
        print_json(document)
    else:
        click.echo(
            f"{document['name']} points to {document['digest']} "
            f"(generation {document['generation']})"
        )


@adapters.command()
@click.argument("adapter")
@connection_options
@json_option
def pin(adapter: str, as_json: bool, **where: Any) -> None:
    """Keep ADAPTER, an alias or digest, on flash and, while there is room, in memory.

    \b
    Example:
      edgelora adapters pin mail --tenant office
    """
    _set_pinned(where, adapter, is_pinned=True, as_json=as_json)


@adapters.command()
@click.argument("adapter")
@connection_options
@json_option
def unpin(adapter: str, as_json: bool, **where: Any) -> None:
    """Let ADAPTER, an alias or digest, go when room is needed.

    \b
    Example:
      edgelora adapters unpin mail --tenant office
    """
    _set_pinned(where, adapter, is_pinned=False, as_json=as_json)


@adapters.command()
@click.argument("adapter")
@connection_options
@json_option
def remove(adapter: str, as_json: bool, **where: Any) -> None:
    """Remove ADAPTER: an alias alone, or a digest with all its aliases.

    \b
    Examples:
      edgelora adapters remove letters --tenant office
      edgelora adapters remove sha256:DIGEST --tenant office
    """
    response = call_node(where, lambda client: client.delete_adapter(adapter))
    if as_json:
        print_json(
            {
                "removed_aliases": list(response.removed_aliases),
                "removed_digest": response.removed_digest or None,
            }
        )
        return
    gone = [*response.removed_aliases, *filter(None, [response.removed_digest])]
    click.echo(f"removed {', '.join(gone)}")


def _set_pinned(where: dict[str, Any], adapter: str, *, is_pinned: bool, as_json: bool) -> None:
    stored = call_node(where, lambda client: client.pin_adapter(adapter, is_pinned=is_pinned))
    if as_json:
        print_json(adapter_document(stored))
    else:
        click.echo(f"{'pinned' if stored.is_pinned else 'unpinned'} {stored.digest}")
