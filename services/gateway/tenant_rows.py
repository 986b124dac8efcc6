"""Rows of tenants.sqlite as values, and what of them holds now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.gateway.key_times import KeyEnd, Now
from services.gateway.roles import Role
from services.gateway.tenant import ApiKey, Tenant, TenantQuotas

TENANT_COLUMNS = (
    "tenants.tenant_id, role, max_concurrent_requests, max_tokens_per_minute, "
    "max_requests_per_minute, max_adapters, max_adapter_bytes, spiffe_id, tenants.created_at_s, "
    "tenants.revoked_at_s"
)
KEY_COLUMNS = (
    "number, keys.created_at_s, keys.revoked_at_s, end_given_at_s, expires_at_s, "
    "expires_at_boot_s, boot_id"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A key, its number and the end it was given."""

    number: int
    key: ApiKey
    end: KeyEnd | None

    def holds(self, now: Now) -> bool:
        """Whether the key opens anything, whatever its tenant may."""
        return self.key.revoked_at_s is None and not (self.end and self.end.has_come(now))


def tenant_of(row: tuple[Any, ...]) -> Tenant:
    """A row of TENANT_COLUMNS."""
    tenant_id, role, concurrent, tokens, requests, adapters, size, spiffe_id, created, revoked = row
    return Tenant(
        tenant_id=tenant_id,
        role=Role[role.upper()],
        quotas=TenantQuotas(
            max_concurrent_requests=concurrent,
            max_tokens_per_minute=tokens,
            max_requests_per_minute=requests,
            max_adapters=adapters,
            max_adapter_bytes=size,
        ),
        spiffe_id=spiffe_id,
        created_at_s=created,
        revoked_at_s=revoked,
    )


def key_of(row: tuple[Any, ...]) -> KeyRow:
    """A row of KEY_COLUMNS."""
    number, created_at_s, revoked_at_s, given_at_s, expires_at_s, expires_at_boot_s, boot_id = row
    end = None
    if expires_at_s is not None:
        end = KeyEnd(
            given_at_s=given_at_s,
            expires_at_s=expires_at_s,
            expires_at_boot_s=expires_at_boot_s,
            boot_id=boot_id,
        )
    key = ApiKey(
        key_id=str(number),
        created_at_s=created_at_s,
        expires_at_s=expires_at_s,
        revoked_at_s=revoked_at_s,
    )
    return KeyRow(number=number, key=key, end=end)
