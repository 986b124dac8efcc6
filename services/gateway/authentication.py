"""Turns an API key or a client certificate into a tenant: the only place that makes identities.

Nothing else in a call says who is calling: other metadata (`x-tenant-id` in any form) is never
read. What goes on to the other services is a sealed TenantClaim.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from edgelora.errors import UnauthenticatedError
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.claims import seal_claim
from services.chassis.sealing import Sealer, boot_clock_s
from services.gateway.failure_throttle import FailureThrottle
from services.gateway.tenant import Tenant
from services.gateway.tenant_registry import TenantRegistry

AUTHORIZATION_KEY = "authorization"
_BEARER = re.compile(r"(?i:bearer) +(\S+)")
# One text for every cause: it must not tell which keys or tenants exist.
_REFUSAL = (
    "a valid API key is required: send `authorization: Bearer <API key>` once, or a "
    "tenant's client certificate where the node takes them"
)

Metadata = Iterable[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is calling, proven, and the claim that proves it to the other services."""

    tenant: Tenant
    key_id: str | None
    """Of the key that proved it, None where only a certificate did."""
    spiffe_id: str | None
    """Of the certificate that proved it, None where only a key did."""
    request_id: str
    claim: Sealed


class Authentication:
    """Checks API keys and seals claims."""

    def __init__(
        self,
        registry: TenantRegistry,
        sealer: Sealer,
        *,
        throttle: FailureThrottle | None = None,
        boot_clock: Callable[[], float] = boot_clock_s,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._registry = registry
        self._sealer = sealer
        self._throttle = throttle or FailureThrottle()
        self._boot_clock = boot_clock
        self._sleep = sleep
        self.num_refused = 0
        """Calls without a valid credential, since the start."""

    async def authenticate(
        self,
        metadata: Metadata,
        *,
        peer: str,
        request_id: str,
        claim_s: float,
        certificate_uris: Sequence[str] = (),
    ) -> Caller:
        """Returns the caller, with a claim that lasts `claim_s` seconds.

        `certificate_uris`: URI names of the certificate that the client proved to have. It has to
        have exactly one then, a tenant's SPIFFE ID; a key beside it has to be the same tenant's.

        Raises UnauthenticatedError, always with the same words, when the key is missing, sent
        twice, malformed, unknown, wrong, ended or revoked, or the certificate is nobody's; later
        and later when a peer goes on failing.
        """
        found = self._prove(list(metadata), certificate_uris)
        if found is None:
            self.num_refused += 1
            delay_s = self._throttle.delay_s(_source(peer), self._boot_clock())
            if delay_s > 0:
                await self._sleep(delay_s)
            raise UnauthenticatedError(_REFUSAL)
        tenant, key_id, spiffe_id = found
        claim = seal_claim(
            self._sealer,
            tenant_id=tenant.tenant_id,
            request_id=request_id,
            expires_at_boot_s=self._boot_clock() + claim_s,
            max_adapters=tenant.quotas.max_adapters,
            max_adapter_bytes=tenant.quotas.max_adapter_bytes,
        )
        return Caller(
            tenant=tenant,
            key_id=key_id,
            spiffe_id=spiffe_id,
            request_id=request_id,
            claim=claim,
        )

    def require_active(self, caller: Caller) -> None:
        """Raises UnauthenticatedError when what proved the caller holds no longer."""
        tenant_id = caller.tenant.tenant_id
        holds = caller.key_id is None or self._registry.holds_key(tenant_id, caller.key_id)
        if holds and caller.spiffe_id is not None:
            tenant = self._registry.find_by_spiffe_id(caller.spiffe_id)
            holds = tenant is not None and tenant.tenant_id == tenant_id
        if not holds:
            raise UnauthenticatedError(_REFUSAL)

    def _prove(
        self, metadata: Metadata, certificate_uris: Sequence[str]
    ) -> tuple[Tenant, str | None, str | None] | None:
        """The tenant, the id of its key and its SPIFFE ID; None when nobody is proven."""
        has_key = any(name == AUTHORIZATION_KEY for name, _ in metadata)
        by_key = self._registry.find_by_key(_api_key(metadata))
        if not certificate_uris:
            return None if by_key is None else (by_key[0], by_key[1].key_id, None)
        spiffe_id = certificate_uris[0]
        tenant = self._registry.find_by_spiffe_id(spiffe_id)
        if tenant is None or len(certificate_uris) > 1:
            return None
        if not has_key:
            return tenant, None, spiffe_id
        if by_key is None or by_key[0].tenant_id != tenant.tenant_id:
            return None
        return tenant, by_key[1].key_id, spiffe_id


def _api_key(metadata: Metadata) -> str:
    """The one bearer key, or "" (which belongs to nobody)."""
    values = [value for key, value in metadata if key == AUTHORIZATION_KEY]
    if len(values) != 1 or not isinstance(values[0], str):
        return ""
    match = _BEARER.fullmatch(values[0])
    return match[1] if match else ""


def _source(peer: str) -> str:
    """The peer without its port: `ipv4:10.0.0.7:41234` -> `ipv4:10.0.0.7`."""
    return peer.rpartition(":")[0] if peer.startswith("ipv") else peer
