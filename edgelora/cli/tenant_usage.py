"""`edgelora tenants usage`: what the tenants have used so far."""

from __future__ import annotations

from pathlib import Path

import click

from edgelora.cli.admin_call import call_admin
from edgelora.cli.messages import usage_document
from edgelora.cli.output import print_json, print_table
from edgelora.cli.places import admin_options


@click.command()
@click.argument("tenant_id", default="")
@admin_options
def usage(tenant_id: str, admin_address: str | None, home: Path, as_json: bool) -> None:
    """Show what the tenants have used so far.

    TENANT_ID shows one. Engine seconds are its share of the time the engine computed. Energy is an
    estimate: those seconds times EDGELORA_GATEWAY_POWER_WATTS, and unknown without that setting.

    \b
    Examples:
      edgelora tenants usage
      edgelora tenants usage garage --json
    """
    found = call_admin(admin_address, home, lambda admin: admin.usage(tenant_id))
    documents = [usage_document(total) for total in found]
    if as_json:
        print_json(documents)
        return
    columns = ("tenant", "requests", "refused", "prompt", "output", "engine s", "joules", "since")
    print_table(
        columns,
        [tuple(document.values()) for document in documents],
        "nothing has been used yet",
    )
