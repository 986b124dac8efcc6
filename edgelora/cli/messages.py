"""Answers of the node as plain documents, for JSON and tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.cli.errors import CliError
from edgelora.v1.adapter_pb2 import Adapter, AdapterAlias, AdapterState
from edgelora.v1.admin_service_pb2 import Tenant
from edgelora.v1.gateway_service_pb2 import GetStatusResponse, ListAdaptersResponse


def tenant_document(tenant: Tenant) -> dict[str, Any]:
    """A tenant, without its key."""
    return {
        "tenant_id": tenant.tenant_id,
        "max_concurrent_requests": tenant.max_concurrent_requests,
        "max_tokens_per_minute": tenant.max_tokens_per_minute,
        "created_at": _time(tenant, "created_at"),
        "revoked_at": _time(tenant, "revoked_at"),
    }


def adapter_document(adapter: Adapter) -> dict[str, Any]:
    """An adapter as its tenant sees it."""
    state = AdapterState.Name(adapter.state).removeprefix("ADAPTER_STATE_").lower()
    return {
        "digest": adapter.digest,
        "aliases": list(adapter.aliases),
        "state": state,
        "rank": adapter.rank,
        "alpha": adapter.alpha,
        "target_modules": list(adapter.target_modules),
        "num_parameters": adapter.num_parameters,
        "size_bytes": adapter.size_bytes,
        "base_digest": adapter.base_digest,
        "registered_at": _time(adapter, "registered_at"),
        "description": adapter.description,
    }


def alias_document(alias: AdapterAlias) -> dict[str, Any]:
    """An alias and its generation."""
    return {"name": alias.name, "digest": alias.digest, "generation": alias.generation}


def check_adapters(response: ListAdaptersResponse, names: Iterable[str]) -> None:
    """Raises CliError, with what there is, unless every name is an alias or digest of it."""
    aliases = [alias for adapter in response.adapters for alias in adapter.aliases]
    known = {*aliases, *(adapter.digest for adapter in response.adapters)}
    if set(names) <= known:
        return
    there = f"its aliases are {', '.join(sorted(aliases))}" if aliases else "it has no aliases"
    raise CliError(f"this tenant has no such adapter: {there}; `edgelora adapters list` shows all")


def status_document(status: GetStatusResponse) -> dict[str, Any]:
    """The node at a glance, by the names of the protos."""
    return MessageToDict(
        status, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _time(message: Tenant | Adapter, name: str) -> str | None:
    if not message.HasField(name):
        return None
    time: Timestamp = getattr(message, name)
    return time.ToJsonString()
