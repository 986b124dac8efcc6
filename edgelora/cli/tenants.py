"""`edgelora tenants`: the operator's commands, through the admin socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgelora.cli.admin_call import call_admin
from edgelora.cli.messages import tenant_document
from edgelora.cli.output import print_json, print_table
from edgelora.cli.places import admin_options, layout_of, saved_key_file
from edgelora.cli.saved_key import hand_over
from edgelora.cli.tenant_grants import grant, grants, withdraw
from edgelora.cli.tenant_keys import keys
from edgelora.cli.tenant_options import tenant_options
from edgelora.cli.tenant_usage import usage

_QUOTAS = (
    "max_concurrent_requests",
    "max_tokens_per_minute",
    "max_requests_per_minute",
    "max_adapters",
    "max_adapter_bytes",
)


@click.group()
def tenants() -> None:
    """Tenants: their keys, roles, quotas, granted adapters and what they used.

    Works for whoever may open the admin socket: the user that runs the stack.

    \b
    Examples:
      edgelora tenants add garage
      edgelora tenants add screen --role user --tokens-per-minute 5000
      edgelora tenants set garage --max-concurrent 2
      edgelora tenants keys rotate garage --overlap 24h
      edgelora tenants grant garage letters screen --alias post
      edgelora tenants usage --json
      edgelora tenants revoke garage
    """


for command in (keys, grant, withdraw, grants, usage):
    tenants.add_command(command)


@tenants.command()
@click.argument("tenant_id")
@tenant_options
@click.option("--show-key", is_flag=True, help="Print the API key instead of saving it.")
@admin_options
def add(
    tenant_id: str,
    show_key: bool,
    spiffe_id: str | None,
    admin_address: str | None,
    home: Path,
    as_json: bool,
    **given: Any,
) -> None:
    """Make the tenant TENANT_ID and its API key.

    The key is saved in HOME/keys/TENANT_ID.key, for --tenant; nothing else keeps a copy of it.

    \b
    Examples:
      edgelora tenants add garage --max-adapters 20 --adapter-bytes 500MiB
      edgelora tenants add screen --role user --show-key
      edgelora tenants add car --spiffe-id spiffe://home/tenant/car
    """
    saved_key_file(layout_of(home).keys, tenant_id)  # before anything is made
    created = call_admin(
        admin_address,
        home,
        lambda admin: admin.create_tenant(tenant_id, spiffe_id=spiffe_id or "", **given),
    )
    hand_over(
        tenant_document(created.tenant),
        created.api_key,
        tenant_id=tenant_id,
        home=home,
        is_shown=show_key,
        as_json=as_json,
        done=f"made tenant {tenant_id}",
    )


@tenants.command("list")
@admin_options
def list_(admin_address: str | None, home: Path, as_json: bool) -> None:
    """List all tenants.

    \b
    Example:
      edgelora tenants list --json
    """
    found = call_admin(admin_address, home, lambda admin: admin.list_tenants())
    documents = [tenant_document(tenant) for tenant in found]
    if as_json:
        print_json(documents)
        return
    print_table(
        ("tenant", "role", "at once", "tokens/minute", "requests/minute", "created", "revoked"),
        [
            (
                document["tenant_id"],
                document["role"],
                *(document[name] for name in _QUOTAS[:3]),
                document["created_at"],
                document["revoked_at"],
            )
            for document in documents
        ],
        "there are no tenants: make one with `edgelora tenants add NAME`",
    )


@tenants.command()
@click.argument("tenant_id")
@admin_options
def show(tenant_id: str, admin_address: str | None, home: Path, as_json: bool) -> None:
    """Show everything about TENANT_ID but its keys.

    \b
    Example:
      edgelora tenants show garage
    """
    found = call_admin(admin_address, home, lambda admin: admin.get_tenant(tenant_id))
    _print(tenant_document(found), as_json=as_json)


@tenants.command("set")
@click.argument("tenant_id")
@tenant_options
@admin_options
def set_(
    tenant_id: str,
    spiffe_id: str | None,
    admin_address: str | None,
    home: Path,
    as_json: bool,
    **given: Any,
) -> None:
    """Change the role, the quotas or the SPIFFE ID of TENANT_ID.

    The tenant's next request sees it. What is not given stays; --spiffe-id "" takes it away. A
    lower quota takes away nothing that is there.

    \b
    Examples:
      edgelora tenants set garage --role trusted
      edgelora tenants set garage --requests-per-minute 60 --max-adapters 5
    """
    if spiffe_id is None and all(value is None for value in given.values()):
        raise click.UsageError("nothing to change: give --role, a quota or --spiffe-id")
    changed = call_admin(
        admin_address,
        home,
        lambda admin: admin.update_tenant(tenant_id, spiffe_id=spiffe_id, **given),
    )
    _print(tenant_document(changed), as_json=as_json)


@tenants.command()
@click.argument("tenant_id")
@admin_options
def revoke(tenant_id: str, admin_address: str | None, home: Path, as_json: bool) -> None:
    """Lock TENANT_ID out at once and for ever.

    All its keys and its certificate are void, running answers end within a second, and adapters
    granted by it and to it are withdrawn. Its id is never given again.

    \b
    Example:
      edgelora tenants revoke garage
    """
    revoked = call_admin(admin_address, home, lambda admin: admin.revoke_tenant(tenant_id))
    if as_json:
        print_json(tenant_document(revoked))
    else:
        click.echo(f"revoked tenant {tenant_id}")


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        print_table(("field", "value"), list(document.items()), "")
