"""Tenants, keys and quotas as protos, and back."""

from __future__ import annotations

from dataclasses import replace

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.errors import InvalidRequestError
from edgelora.v1 import admin_service_pb2 as pb
from services.gateway.roles import Role
from services.gateway.tenant import ApiKey, Tenant, TenantQuotas
from services.gateway.usage import Usage, UsageTotal

_QUOTAS = tuple(field.name for field in pb.TenantQuotas.DESCRIPTOR.fields)


def tenant_message(tenant: Tenant) -> pb.Tenant:
    """A tenant, without its keys."""
    quotas = tenant.quotas
    message = pb.Tenant(
        tenant_id=tenant.tenant_id,
        max_concurrent_requests=quotas.max_concurrent_requests,
        max_tokens_per_minute=quotas.max_tokens_per_minute,
        created_at=timestamp(tenant.created_at_s),
        role=pb.Role.Name(tenant.role),
        quotas=pb.TenantQuotas(**{name: getattr(quotas, name) for name in _QUOTAS}),
        spiffe_id=tenant.spiffe_id or "",
    )
    if tenant.revoked_at_s is not None:
        message.revoked_at.CopyFrom(timestamp(tenant.revoked_at_s))
    return message


def key_message(key: ApiKey) -> pb.ApiKey:
    """A key, without its secret."""
    message = pb.ApiKey(key_id=key.key_id, created_at=timestamp(key.created_at_s))
    if key.expires_at_s is not None:
        message.expires_at.CopyFrom(timestamp(key.expires_at_s))
    if key.revoked_at_s is not None:
        message.revoked_at.CopyFrom(timestamp(key.revoked_at_s))
    return message


def role_of(role: int, otherwise: Role) -> Role:
    """The role a message asks for. Raises InvalidRequestError when there is none such."""
    if role == pb.ROLE_UNSPECIFIED:
        return otherwise
    if role not in set(Role):
        raise InvalidRequestError("role must be user, author or trusted", field="role")
    return Role(role)


def changed_quotas(
    quotas: TenantQuotas, message: pb.TenantQuotas | pb.CreateTenantRequest
) -> TenantQuotas:
    """The quotas, with those that a message sets in place of what they were."""
    names = {field.name for field in message.DESCRIPTOR.fields} & set(_QUOTAS)
    return replace(
        quotas, **{name: getattr(message, name) for name in names if message.HasField(name)}
    )


def usage_message(tenant_id: str, total: UsageTotal, usage: Usage) -> pb.UsageTotal:
    """What a tenant has used."""
    used = total.used
    return pb.UsageTotal(
        tenant_id=tenant_id,
        num_requests=used.num_requests,
        num_refused=used.num_refused,
        num_prompt_tokens=used.num_prompt_tokens,
        num_output_tokens=used.num_output_tokens,
        engine_time=duration(used.engine_s),
        energy_joules=usage.energy_joules(used),
        since=timestamp(total.since_s),
    )


def duration(seconds: float) -> Duration:
    """A time span as a message."""
    message = Duration()
    message.FromMicroseconds(round(seconds * 1_000_000))
    return message


def timestamp(unix_s: float) -> Timestamp:
    """A time as a message."""
    message = Timestamp()
    message.FromMicroseconds(round(unix_s * 1_000_000))
    return message
