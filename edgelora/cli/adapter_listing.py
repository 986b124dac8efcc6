"""`edgelora adapters list`: a line for each adapter, printed as its page arrives."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import click

from edgelora.cli.adapter_view import list_heading, list_line
from edgelora.cli.messages import adapter_document, alias_document
from edgelora.cli.node_call import call_node
from edgelora.cli.output import output_console, print_json, progress_console
from edgelora.cli.places import connection_options, json_option
from edgelora.client import MAX_PAGE_SIZE, EdgeLoraClient
from edgelora.v1.gateway_service_pb2 import ListAdaptersResponse


@click.command("list")
@click.option("--limit", type=click.IntRange(min=1), help="Show the newest so many.")
@connection_options
@json_option
def list_(limit: int | None, as_json: bool, **where: Any) -> None:
    """List the tenant's adapters, newest first.

    Resident is what a worker has in memory, registered what is on flash or at its remote. Digests
    are cut here; show and --json print them whole.

    \b
    Examples:
      edgelora adapters list --tenant office
      edgelora adapters list --limit 20 --tenant office
      edgelora adapters list --json --tenant office
    """
    call_node(where, lambda client: (_as_json if as_json else _as_lines)(client, limit))


async def _as_json(client: EdgeLoraClient, limit: int | None) -> None:
    adapters: list[dict[str, Any]] = []
    aliases: list[dict[str, Any]] = []
    async with aclosing(_pages(client, limit)) as pages:
        async for page in pages:
            adapters += map(adapter_document, page.adapters)
            aliases += map(alias_document, page.aliases)
    aliases.sort(key=lambda alias: str(alias["name"]))
    print_json({"adapters": adapters, "aliases": aliases})


async def _as_lines(client: EdgeLoraClient, limit: int | None) -> None:
    has_heading = False
    async with aclosing(_pages(client, limit)) as pages:
        async for page in pages:
            if page.adapters and not has_heading:
                output_console().print(list_heading(), style="bold", soft_wrap=True)
                has_heading = True
            for adapter in page.adapters:
                click.echo(list_line(adapter_document(adapter)))
    if not has_heading:
        click.echo("there are no adapters: register one with `edgelora adapters add`")


async def _pages(
    client: EdgeLoraClient, limit: int | None
) -> AsyncGenerator[ListAdaptersResponse, None]:
    """The pages of the newest `limit` adapters; says on standard error when there are more."""
    page_size = MAX_PAGE_SIZE if limit is None else min(limit, MAX_PAGE_SIZE)
    num_left = limit
    async with aclosing(client.adapter_pages(page_size=page_size)) as pages:
        async for page in pages:
            if num_left is None or len(page.adapters) < num_left:
                num_left = None if num_left is None else num_left - len(page.adapters)
                yield page
                continue
            has_more = len(page.adapters) > num_left or page.next_page_token
            yield _cut(page, num_left)
            if has_more:
                progress_console().print("(there are more: give a larger --limit)", style="dim")
            return


def _cut(page: ListAdaptersResponse, num_adapters: int) -> ListAdaptersResponse:
    """The first adapters of a page, and the aliases that point to them."""
    adapters = page.adapters[:num_adapters]
    digests = {adapter.digest for adapter in adapters}
    aliases = [alias for alias in page.aliases if alias.digest in digests]
    return ListAdaptersResponse(adapters=adapters, aliases=aliases)
