"""`edgelora adapters`: a tenant's adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from edgelora.adapter_upload import file_sizes
from edgelora.cli.messages import adapter_document, alias_document, check_adapters
from edgelora.cli.output import print_json, print_table
from edgelora.cli.places import connection, connection_options, json_option
from edgelora.client import EdgeLoraClient
from edgelora.toolchain.progress import progress_bar
from edgelora.v1.gateway_service_pb2 import ListAdaptersResponse

ResultT = TypeVar("ResultT")
_SHORT_DIGEST = 19
"""`sha256:` and 12 digits: enough to tell adapters apart in a table."""


@click.group()
def adapters() -> None:
    """Add, list, show, alias and remove adapters.

    \b
    Examples:
      edgelora adapters add ./my-adapter --alias mail --tenant office
      edgelora adapters list --tenant office
      edgelora adapters alias letters sha256:... --tenant office
      edgelora adapters remove letters --tenant office
    """


@adapters.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--alias", default="", help="Name for it: letters, digits, '.', '_', '-'.")
@click.option("--replace", is_flag=True, help="Let an alias that exists point to it.")
@click.option("--description", default="", help="Free text, at most 500 characters.")
@connection_options
@json_option
def add(
    directory: Path, alias: str, replace: bool, description: str, as_json: bool, **where: Any
) -> None:
    """Register the PEFT adapter in DIRECTORY.

    The node verifies it against its base model before anything can use it.
    """

    total = sum(file_sizes(directory).values())

    async def register(client: EdgeLoraClient) -> Any:
        sent = 0
        with progress_bar(f"Uploading {directory.name}", total) as bar:

            def advance(now_sent: int, _total: int) -> None:
                nonlocal sent
                bar.advance(now_sent - sent)
                sent = now_sent

            return await client.register_adapter(
                directory,
                alias=alias,
                description=description,
                replace_alias=replace,
                on_progress=advance,
            )

    response = _call(where, register)
    if as_json:
        print_json(
            {
                "adapter": adapter_document(response.adapter),
                "alias": alias_document(response.alias) if response.HasField("alias") else None,
                "is_new": response.is_new,
            }
        )
        return
    what = "registered" if response.is_new else "was registered before:"
    name = f" as {response.alias.name}" if response.HasField("alias") else ""
    click.echo(f"{what} {response.adapter.digest}{name}")


@adapters.command("list")
@connection_options
@json_option
def list_(as_json: bool, **where: Any) -> None:
    """List the tenant's adapters, newest first."""
    response = _call(where, lambda client: client.list_adapters())
    documents = [adapter_document(adapter) for adapter in response.adapters]
    if as_json:
        aliases = [alias_document(alias) for alias in response.aliases]
        print_json({"adapters": documents, "aliases": aliases})
        return
    rows = [
        (
            ", ".join(document["aliases"]) or None,
            document["digest"][:_SHORT_DIGEST],
            document["state"],
            document["rank"],
            round(document["size_bytes"] / 1e6, 1),
            document["description"],
        )
        for document in documents
    ]
    columns = ("aliases", "digest", "state", "rank", "MB", "description")
    print_table(columns, rows, "there are no adapters: register one with `edgelora adapters add`")


@adapters.command()
@click.argument("adapter")
@connection_options
@json_option
def show(adapter: str, as_json: bool, **where: Any) -> None:
    """Show everything about ADAPTER, an alias or digest."""
    document = _find(_call(where, lambda client: client.list_adapters()), adapter)
    if as_json:
        print_json(document)
        return
    shown = {
        **document,
        "aliases": ", ".join(document["aliases"]) or None,
        "target_modules": ", ".join(document["target_modules"]),
    }
    print_table(("field", "value"), [(k.replace("_", " "), v) for k, v in shown.items()], "")


@adapters.command()
@click.argument("name")
@click.argument("adapter")
@click.option("--expect", type=int, help="Only if the alias is at this generation; 0: is new.")
@connection_options
@json_option
def alias(name: str, adapter: str, expect: int | None, as_json: bool, **where: Any) -> None:
    """Let the alias NAME point to ADAPTER, a digest or another alias."""

    async def set_alias(client: EdgeLoraClient) -> Any:
        digest = adapter
        if not adapter.startswith("sha256:"):
            digest = _find(await client.list_adapters(), adapter)["digest"]
        return await client.set_adapter_alias(name, digest, expected_generation=expect)

    document = alias_document(_call(where, set_alias))
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
def remove(adapter: str, as_json: bool, **where: Any) -> None:
    """Remove ADAPTER: an alias alone, or a digest with all its aliases."""
    response = _call(where, lambda client: client.delete_adapter(adapter))
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


def _call(where: dict[str, Any], work: Callable[[EdgeLoraClient], Awaitable[ResultT]]) -> ResultT:
    """Connects as the options say, and runs one piece of work."""
    target = connection(**where)

    async def run() -> ResultT:
        async with EdgeLoraClient(target.address, target.api_key) as client:
            return await work(client)

    return asyncio.run(run())


def _find(response: ListAdaptersResponse, adapter: str) -> dict[str, Any]:
    check_adapters(response, [adapter])
    return next(
        adapter_document(found)
        for found in response.adapters
        if adapter == found.digest or adapter in found.aliases
    )
