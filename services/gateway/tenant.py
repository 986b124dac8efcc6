"""A tenant, its quotas and its keys, as the registry keeps them."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from edgelora.errors import InvalidRequestError
from services.gateway.roles import Role

TENANT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantQuotas:
    """What one tenant may use."""

    max_concurrent_requests: int = 8
    """Generations, uploads and installations at once."""
    max_tokens_per_minute: int = 60_000
    """Prompt and output tokens."""
    max_requests_per_minute: int = 600
    """Generations, uploads and installations."""
    max_adapters: int = 2000
    """Adapters of its own."""
    max_adapter_bytes: int = 4 * 2**30
    """What their stored forms take on flash."""

    def check(self) -> None:
        """Raises InvalidRequestError with the name of the quota that is out of its range."""
        for field in fields(self):
            lowest, highest = _RANGES[field.name]
            if not lowest <= getattr(self, field.name) <= highest:
                raise InvalidRequestError(
                    f"{field.name} must be {lowest} to {highest}", field=field.name
                )


_RANGES = {
    "max_concurrent_requests": (1, 1024),
    "max_tokens_per_minute": (1, 1_000_000_000),
    "max_requests_per_minute": (1, 1_000_000),
    "max_adapters": (0, 1_000_000),
    "max_adapter_bytes": (0, 2**50),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One party that shares the node."""

    tenant_id: str
    role: Role
    quotas: TenantQuotas
    spiffe_id: str | None
    """What it is over mutual TLS, None where it only has keys."""
    created_at_s: float
    """Unix time."""
    revoked_at_s: float | None
    """Unix time, None while it is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """One key of a tenant, without its secret. Times are Unix times."""

    key_id: str
    """Names the key among those of its tenant."""
    created_at_s: float
    expires_at_s: float | None
    """None: never."""
    revoked_at_s: float | None
