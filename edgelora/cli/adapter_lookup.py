"""Finds an adapter a person named, or says which ones there are."""

from __future__ import annotations

from contextlib import aclosing

from edgelora.cli.errors import CliError
from edgelora.client import EdgeLoraClient
from edgelora.errors import AdapterNotFoundError
from edgelora.v1.gateway_service_pb2 import GetAdapterResponse, ListAdaptersResponse

_MAX_NAMED = 20


async def find_adapter(client: EdgeLoraClient, name: str) -> GetAdapterResponse:
    """Everything about the adapter of that alias or digest.

    Raises CliError with the names there are when the tenant has none of this one.
    """
    try:
        return await client.get_adapter(name)
    except AdapterNotFoundError:
        async with aclosing(client.adapter_pages(page_size=_MAX_NAMED)) as pages:
            page = await anext(pages)
        raise CliError(f"this tenant has no such adapter: {_there_is(page)}") from None


def _there_is(page: ListAdaptersResponse) -> str:
    aliases = sorted(alias.name for alias in page.aliases)
    named, rest = aliases[:_MAX_NAMED], aliases[_MAX_NAMED:]
    has_more = bool(rest or page.next_page_token)
    there = f"its aliases are {', '.join(named)}" if named else "it has no aliases"
    return f"{there}{' and more' if has_more and named else ''}; `edgelora adapters list` shows all"
