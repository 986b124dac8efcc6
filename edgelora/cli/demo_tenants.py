"""Gives every role of the demonstration a tenant, a key and its adapter."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from pathlib import Path

from edgelora.adapter_format import adapter_digest, parse_adapter_config
from edgelora.cli.demo_cast import DEMO_DIRECTORY, Role
from edgelora.cli.errors import CliError
from edgelora.cli.places import saved_key_file
from edgelora.client import AdminClient, EdgeLoraClient
from edgelora.errors import NotFoundError
from edgelora.local_stack.secrets import write_secret

_MAX_RANK = 1024
"""No node takes more; what the demos have is far below."""


async def ensure_tenant(admin: AdminClient, keys: Path, name: str) -> tuple[str, str]:
    """Returns (tenant id, API key) of a demo tenant; makes it, or the next one, where needed.

    A tenant that was revoked, or whose only copy of the key is gone, cannot be used again: then
    it is `name-2`, and so on.
    """
    known = {tenant.tenant_id: tenant for tenant in await admin.list_tenants()}
    for number in count(1):
        tenant_id = name if number == 1 else f"{name}-{number}"
        path = saved_key_file(keys, tenant_id)
        tenant = known.get(tenant_id)
        if tenant is None:
            key = (await admin.create_tenant(tenant_id)).api_key
            write_secret(path, key)
            return tenant_id, key
        if not tenant.HasField("revoked_at") and path.exists():
            return tenant_id, path.read_text(encoding="ascii").strip()
    raise AssertionError("count never ends")


async def ensure_adapter(client: EdgeLoraClient, role: Role) -> str:
    """Has a role's adapter registered for its tenant under its alias, and returns the digest.

    One that is there already, verified for this base model, is not verified again. Raises CliError
    when the adapter is not in the source tree.
    """
    directory = DEMO_DIRECTORY / role.adapter
    if not directory.is_dir():
        raise CliError(
            f"the demo adapter {directory} is missing: run `edgelora train --demo {role.adapter}`, "
            "or `edgelora up --no-demo`"
        )
    digest = await asyncio.to_thread(_local_digest, directory)
    base_digest = (await client.status()).model_digest
    with suppress(NotFoundError):
        known = (await client.get_adapter(role.adapter)).adapter
        if (known.digest, known.base_digest) == (digest, base_digest) and known.certificate_digest:
            return digest
    response = await client.register_adapter(
        directory, alias=role.adapter, description=role.description, replace_alias=True
    )
    return response.adapter.digest


def _local_digest(directory: Path) -> str:
    config = (directory / "adapter_config.json").read_bytes()
    weights = (directory / "adapter_model.safetensors").read_bytes()
    return adapter_digest(parse_adapter_config(config, max_rank=_MAX_RANK), weights)
