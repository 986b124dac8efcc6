"""Counts what each tenant used since the gateway started. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TenantCounters:
    """Totals of one tenant."""

    num_requests: int = 0
    """Accepted requests. Each ends exactly once."""
    num_ended: int = 0
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0


class UsageCounters:
    """The totals of all tenants."""

    def __init__(self) -> None:
        self._tenants: dict[str, TenantCounters] = {}

    def of(self, tenant_id: str) -> TenantCounters:
        """The tenant's totals, zero for a new tenant."""
        return self._tenants.setdefault(tenant_id, TenantCounters())
