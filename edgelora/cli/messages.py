"""Answers of the node as plain documents, for JSON and tables."""

from __future__ import annotations

import json
import math
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.v1.adapter_pb2 import (
    Adapter,
    AdapterAlias,
    AdapterCertificate,
    AdapterState,
    ServingForm,
    TierStatistics,
)
from edgelora.v1.admin_service_pb2 import ApiKey, Grant, Role, Tenant, UsageTotal
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.gateway_service_pb2 import GetAdapterResponse, GetStatusResponse


def tenant_document(tenant: Tenant) -> dict[str, Any]:
    """A tenant, without its key."""
    quotas = tenant.quotas
    return {
        "tenant_id": tenant.tenant_id,
        "role": Role.Name(tenant.role).removeprefix("ROLE_").lower(),
        "max_concurrent_requests": quotas.max_concurrent_requests,
        "max_tokens_per_minute": quotas.max_tokens_per_minute,
        "max_requests_per_minute": quotas.max_requests_per_minute,
        "max_adapters": quotas.max_adapters,
        "max_adapter_bytes": quotas.max_adapter_bytes,
        "spiffe_id": tenant.spiffe_id or None,
        "created_at": _time(tenant, "created_at"),
        "revoked_at": _time(tenant, "revoked_at"),
    }


def key_document(key: ApiKey) -> dict[str, Any]:
    """An API key, without its secret."""
    return {
        "key_id": key.key_id,
        "created_at": _time(key, "created_at"),
        "expires_at": _time(key, "expires_at"),
        "revoked_at": _time(key, "revoked_at"),
    }


def grant_document(grant: Grant) -> dict[str, Any]:
    """A granted adapter."""
    return {
        "tenant_id": grant.tenant_id,
        "alias": grant.alias or None,
        "owner_tenant_id": grant.owner_tenant_id,
        "digest": grant.digest,
    }


def usage_document(total: UsageTotal) -> dict[str, Any]:
    """What a tenant has used; energy is None where the power of the node is unknown."""
    return {
        "tenant_id": total.tenant_id,
        "num_requests": total.num_requests,
        "num_refused": total.num_refused,
        "num_prompt_tokens": total.num_prompt_tokens,
        "num_output_tokens": total.num_output_tokens,
        "engine_s": total.engine_time.ToMilliseconds() / 1000,
        "energy_joules": total.energy_joules if total.HasField("energy_joules") else None,
        "since": _time(total, "since"),
    }


def adapter_document(adapter: Adapter) -> dict[str, Any]:
    """An adapter as its tenant sees it in a list."""
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
        "flash_bytes": adapter.flash_bytes,
        "is_on_flash": adapter.is_on_flash,
        "is_pinned": adapter.is_pinned,
        "base_digest": adapter.base_digest,
        "certificate_digest": adapter.certificate_digest,
        "source": adapter.lineage.source,
        "parent_digest": adapter.lineage.parent_digest or None,
        "registered_at": _time(adapter, "registered_at"),
        "description": adapter.description,
        "version_of_digest": adapter.version_of_digest or None,
        "is_granted": adapter.is_granted,
        "task": "encode" if adapter.task == Task.TASK_ENCODE else "generate",
        "is_classifier": adapter.HasField("head"),
    }


def adapter_details(found: GetAdapterResponse) -> dict[str, Any]:
    """An adapter with its generations, its certificate and what it was used for."""
    adapter = found.adapter
    return {
        **adapter_document(adapter),
        "example_prompts": list(adapter.example_prompts),
        "labels": list(adapter.head.labels),
        "knows_out_of_scope": adapter.head.knows_out_of_scope,
        "generations": {alias.name: alias.generation for alias in found.aliases},
        "certificate": _certificate(adapter.certificate)
        if adapter.HasField("certificate")
        else None,
        "usage": message_document(adapter.usage) if adapter.HasField("usage") else None,
    }


def alias_document(alias: AdapterAlias) -> dict[str, Any]:
    """An alias and its generation."""
    return {"name": alias.name, "digest": alias.digest, "generation": alias.generation}


def status_document(status: GetStatusResponse) -> dict[str, Any]:
    """The node at a glance, by the names of the protos."""
    document = message_document(status)
    if status.HasField("tiers"):
        document["tiers"]["hit_rates"] = hit_rates(status.tiers)
    return document


def hit_rates(tiers: TierStatistics) -> dict[str, float | None]:
    """Tier -> share of the requests that found their adapter there; None before the first one."""
    hits = {
        "memory": tiers.num_memory_hits,
        "flash": tiers.num_flash_hits,
        "remote": tiers.num_remote_hits,
    }
    total = sum(hits.values())
    return {tier: count / total if total else None for tier, count in hits.items()}


def message_document(message: Message) -> dict[str, Any]:
    """A message by the names of its proto, numbers as numbers.

    Absent fields are left out; a number JSON cannot hold is None.
    """
    return {
        field.name: [_value(value, field.enum_type) for value in getattr(message, field.name)]
        if field.is_repeated
        else _value(getattr(message, field.name), field.enum_type)
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _value(value: Any, enum_type: Any) -> Any:
    if isinstance(value, Timestamp | Duration):
        return value.ToJsonString()
    if isinstance(value, Message):
        return message_document(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if enum_type is not None and value in enum_type.values_by_number:
        return enum_type.values_by_number[value].name
    return value


def _certificate(certificate: AdapterCertificate) -> dict[str, Any]:
    def measured(name: str) -> float | None:
        return getattr(certificate, name) if certificate.HasField(name) else None

    return {
        "form": ServingForm.Name(certificate.form).removeprefix("SERVING_FORM_").lower(),
        "bits_per_parameter": certificate.bits_per_parameter or None,
        **{
            name: measured(name)
            for name in (
                "mean_kl",
                "max_kl",
                "top1_agreement",
                "task_metric_before",
                "task_metric_after",
            )
        },
        "document": json.loads(certificate.document) if certificate.document else None,
    }


def _time(message: Message, name: str) -> str | None:
    if not message.HasField(name):
        return None
    time: Timestamp = getattr(message, name)
    return time.ToJsonString()
