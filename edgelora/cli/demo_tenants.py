"""Gives every role of the demonstration a tenant, a key and its adapter."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from edgelora.cli.demo_cast import DEMO_DIRECTORY, Role
from edgelora.cli.errors import CliError
from edgelora.cli.places import key_file
from edgelora.client import AdminClient, EdgeLoraClient
from edgelora.local_stack.secrets import write_secret


async def ensure_tenant(admin: AdminClient, keys: Path, name: str) -> tuple[str, str]:
    """Returns (tenant id, API key) of a demo tenant; makes it, or the next one, where needed.

    A tenant that was revoked, or whose only copy of the key is gone, cannot be used again: then
    it is `name-2`, and so on.
    """
    known = {tenant.tenant_id: tenant for tenant in await admin.list_tenants()}
    for number in count(1):
        tenant_id = name if number == 1 else f"{name}-{number}"
        path = key_file(keys, tenant_id)
        tenant = known.get(tenant_id)
        if tenant is None:
            key = (await admin.create_tenant(tenant_id)).api_key
            write_secret(path, key)
            return tenant_id, key
        if not tenant.HasField("revoked_at") and path.exists():
            return tenant_id, path.read_text(encoding="ascii").strip()
    raise AssertionError("count never ends")


async def ensure_adapter(client: EdgeLoraClient, role: Role) -> str:
    """Registers a role's adapter for its tenant and returns the digest.

    Content the node knows already is only pointed to. Raises CliError when the adapter is not in
    the source tree.
    """
    directory = DEMO_DIRECTORY / role.adapter
    if not directory.is_dir():
        raise CliError(
            f"the demo adapter {directory} is missing: run `edgelora train --demo {role.adapter}`, "
            "or `edgelora up --no-demo`"
        )
    response = await client.register_adapter(
        directory, alias=role.adapter, description=role.description, replace_alias=True
    )
    return response.adapter.digest
