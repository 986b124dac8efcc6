"""`edgelora tenants`: the operator's commands, through the admin socket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from edgelora.cli.messages import tenant_document
from edgelora.cli.output import print_json, print_table
from edgelora.cli.places import admin_options, admin_target, layout_of, saved_key_file
from edgelora.client import AdminClient
from edgelora.local_stack.secrets import write_secret


@click.group()
def tenants() -> None:
    """Add, list and revoke tenants.

    Works for whoever may open the admin socket: the user that runs the stack.

    \b
    Examples:
      edgelora tenants add garage
      edgelora tenants add garage --show-key
      edgelora tenants list --json
      edgelora tenants revoke garage
    """


@tenants.command()
@click.argument("tenant_id")
@click.option("--max-concurrent", type=click.IntRange(min=1), help="Requests at once.")
@click.option("--tokens-per-minute", type=click.IntRange(min=1), help="Prompt and output tokens.")
@click.option("--show-key", is_flag=True, help="Print the API key instead of saving it.")
@admin_options
def add(
    tenant_id: str,
    max_concurrent: int | None,
    tokens_per_minute: int | None,
    show_key: bool,
    admin_address: str | None,
    home: Path,
    as_json: bool,
) -> None:
    """Make the tenant TENANT_ID and its API key.

    The key is saved in HOME/keys/TENANT_ID.key, for --tenant; nothing else keeps a copy of it.
    """
    path = saved_key_file(layout_of(home).keys, tenant_id)
    address = admin_target(admin_address, home)

    async def create() -> Any:
        async with AdminClient(address) as admin:
            return await admin.create_tenant(
                tenant_id,
                max_concurrent_requests=max_concurrent,
                max_tokens_per_minute=tokens_per_minute,
            )

    created = asyncio.run(create())
    document = tenant_document(created.tenant)
    if show_key:
        document["api_key"] = created.api_key
    else:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(path, created.api_key)
        document["api_key_file"] = str(path)
    if as_json:
        print_json(document)
    elif show_key:
        click.echo(created.api_key)
    else:
        click.echo(f"made tenant {tenant_id}: its key is in {path}")


@tenants.command("list")
@admin_options
def list_(admin_address: str | None, home: Path, as_json: bool) -> None:
    """List all tenants."""
    address = admin_target(admin_address, home)

    async def read() -> list[Any]:
        async with AdminClient(address) as admin:
            return await admin.list_tenants()

    documents = [tenant_document(tenant) for tenant in asyncio.run(read())]
    if as_json:
        print_json(documents)
        return
    columns = ("tenant", "requests at once", "tokens/minute", "created", "revoked")
    print_table(
        columns,
        [tuple(document.values()) for document in documents],
        "there are no tenants: make one with `edgelora tenants add NAME`",
    )


@tenants.command()
@click.argument("tenant_id")
@admin_options
def revoke(tenant_id: str, admin_address: str | None, home: Path, as_json: bool) -> None:
    """Make the key of TENANT_ID void at once."""
    address = admin_target(admin_address, home)

    async def revoke_tenant() -> Any:
        async with AdminClient(address) as admin:
            return await admin.revoke_tenant(tenant_id)

    document = tenant_document(asyncio.run(revoke_tenant()))
    if as_json:
        print_json(document)
    else:
        click.echo(f"revoked tenant {tenant_id}")
