"""`edgelora tenants grant`, `withdraw` and `grants`: adapters of one tenant for another."""

from __future__ import annotations

from pathlib import Path

import click

from edgelora.cli.admin_call import call_admin
from edgelora.cli.errors import CliError
from edgelora.cli.messages import grant_document
from edgelora.cli.output import print_json, print_table
from edgelora.cli.places import admin_options
from edgelora.client import AdminClient


@click.command()
@click.argument("owner")
@click.argument("adapter")
@click.argument("tenant_id")
@click.option("--alias", default="", help="Its name for TENANT_ID; without one, its digest alone.")
@admin_options
def grant(
    owner: str,
    adapter: str,
    tenant_id: str,
    alias: str,
    admin_address: str | None,
    home: Path,
    as_json: bool,
) -> None:
    """Let TENANT_ID use an adapter of OWNER.

    ADAPTER is an alias or digest of OWNER. TENANT_ID can use it and change nothing of it,
    and is not told whose it is.

    \b
    Examples:
      edgelora tenants grant garage letters screen --alias post
      edgelora tenants grant garage sha256:DIGEST screen
    """
    made = call_admin(
        admin_address,
        home,
        lambda admin: admin.grant_adapter(owner, adapter, tenant_id, alias=alias),
    )
    document = grant_document(made)
    if as_json:
        print_json(document)
    else:
        click.echo(f"{tenant_id} may use {document['alias'] or document['digest']}")


@click.command()
@click.argument("tenant_id")
@click.argument("adapter")
@admin_options
def withdraw(
    tenant_id: str, adapter: str, admin_address: str | None, home: Path, as_json: bool
) -> None:
    """Take a granted adapter back from TENANT_ID.

    ADAPTER is its alias there or its digest. Nothing starts with it any more;
    answers that were accepted before finish.

    \b
    Examples:
      edgelora tenants withdraw screen post
      edgelora tenants withdraw screen sha256:DIGEST
    """

    async def end(admin: AdminClient) -> str:
        digest = adapter
        if not adapter.startswith("sha256:"):
            named = [each for each in await admin.list_grants(tenant_id) if each.alias == adapter]
            if not named:
                raise CliError(
                    "no adapter is granted under this name: `edgelora tenants grants` lists them"
                )
            digest = named[0].digest
        await admin.withdraw_adapter(tenant_id, digest)
        return digest

    digest = call_admin(admin_address, home, end)
    if as_json:
        print_json({"tenant_id": tenant_id, "digest": digest})
    else:
        click.echo(f"{tenant_id} may no longer use {digest}")


@click.command()
@click.argument("tenant_id", default="")
@admin_options
def grants(tenant_id: str, admin_address: str | None, home: Path, as_json: bool) -> None:
    """List the adapters granted to TENANT_ID, or to all.

    \b
    Examples:
      edgelora tenants grants
      edgelora tenants grants screen --json
    """
    found = call_admin(admin_address, home, lambda admin: admin.list_grants(tenant_id))
    documents = [grant_document(each) for each in found]
    if as_json:
        print_json(documents)
        return
    print_table(
        ("tenant", "name", "owner", "digest"),
        [tuple(document.values()) for document in documents],
        "nothing is granted: `edgelora tenants grant` does",
    )
