"""`edgelora tenants keys`: several keys of one tenant, one after another or side by side."""

from __future__ import annotations

from pathlib import Path

import click

from edgelora.cli.admin_call import call_admin
from edgelora.cli.messages import key_document
from edgelora.cli.output import print_json, print_table
from edgelora.cli.places import admin_options, layout_of, saved_key_file
from edgelora.cli.saved_key import hand_over
from edgelora.cli.tenant_options import overlap_option


@click.group()
def keys() -> None:
    """API keys of a tenant.

    \b
    Examples:
      edgelora tenants keys list garage
      edgelora tenants keys rotate garage --overlap 24h
      edgelora tenants keys revoke garage 1
    """


@keys.command("list")
@click.argument("tenant_id")
@admin_options
def list_(tenant_id: str, admin_address: str | None, home: Path, as_json: bool) -> None:
    """List the keys of TENANT_ID, newest first; never the keys themselves.

    \b
    Example:
      edgelora tenants keys list garage --json
    """
    found = call_admin(admin_address, home, lambda admin: admin.list_keys(tenant_id))
    documents = [key_document(key) for key in found]
    if as_json:
        print_json(documents)
        return
    print_table(
        ("key", "created", "ends", "revoked"),
        [tuple(document.values()) for document in documents],
        "the tenant has no key: make one with `edgelora tenants keys add NAME`",
    )


@keys.command()
@click.argument("tenant_id")
@click.option("--show-key", is_flag=True, help="Print the API key instead of saving it.")
@admin_options
def add(
    tenant_id: str, show_key: bool, admin_address: str | None, home: Path, as_json: bool
) -> None:
    """Make one more key for TENANT_ID; the others stay as they are.

    \b
    Example:
      edgelora tenants keys add garage --show-key
    """
    _make(tenant_id, None, show_key, admin_address, home, as_json)


@keys.command()
@click.argument("tenant_id")
@overlap_option
@click.option("--show-key", is_flag=True, help="Print the API key instead of saving it.")
@admin_options
def rotate(
    tenant_id: str,
    overlap_s: float,
    show_key: bool,
    admin_address: str | None,
    home: Path,
    as_json: bool,
) -> None:
    """Make a new key for TENANT_ID, and let the others end after the overlap.

    \b
    Examples:
      edgelora tenants keys rotate garage
      edgelora tenants keys rotate garage --overlap 0s
    """
    _make(tenant_id, overlap_s, show_key, admin_address, home, as_json)


@keys.command()
@click.argument("tenant_id")
@click.argument("key_id")
@admin_options
def revoke(
    tenant_id: str, key_id: str, admin_address: str | None, home: Path, as_json: bool
) -> None:
    """Void the key KEY_ID of TENANT_ID at once; answers it asked for end within a second.

    \b
    Example:
      edgelora tenants keys revoke garage 1
    """
    revoked = call_admin(admin_address, home, lambda admin: admin.revoke_key(tenant_id, key_id))
    if as_json:
        print_json(key_document(revoked))
    else:
        click.echo(f"revoked key {key_id} of {tenant_id}")


def _make(
    tenant_id: str,
    overlap_s: float | None,
    show_key: bool,
    admin_address: str | None,
    home: Path,
    as_json: bool,
) -> None:
    saved_key_file(layout_of(home).keys, tenant_id)  # before anything is made
    made = call_admin(
        admin_address, home, lambda admin: admin.create_key(tenant_id, overlap_s=overlap_s)
    )
    hand_over(
        key_document(made.key),
        made.api_key,
        tenant_id=tenant_id,
        home=home,
        is_shown=show_key,
        as_json=as_json,
        done=f"made key {made.key.key_id} of {tenant_id}",
    )
