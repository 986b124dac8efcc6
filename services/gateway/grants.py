"""Grants of adapters, as the operator asks for them: the store keeps them, the tenants are ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import structlog

from edgelora.errors import EdgeLoraError, NotFoundError
from edgelora.v1 import adapter_store_service_pb2 as store_pb
from edgelora.v1 import admin_service_pb2 as pb
from edgelora.v1.ticket_pb2 import OperatorClaim, Sealed
from services.chassis.channel import call_metadata
from services.chassis.claims import seal_operator_claim
from services.chassis.logs import get_logger
from services.chassis.sealing import Sealer, boot_clock_s
from services.gateway.tenant_registry import TenantRegistry
from services.gateway.upstream import Upstream, errors_of

_STORE_S = 10.0
_UPKEEP_PERIOD_S = 30.0


class Grants:
    """Asks the store under the operator's claim.

    A revoked tenant neither grants nor is granted anything: its grants are withdrawn when it is
    revoked, and again and again until the store has done so.
    """

    def __init__(
        self,
        registry: TenantRegistry,
        upstream: Upstream,
        sealer: Sealer,
        boot_clock: Callable[[], float] = boot_clock_s,
    ) -> None:
        self._registry = registry
        self._upstream = upstream
        self._sealer = sealer
        self._boot_clock = boot_clock

    async def grant(self, request: pb.GrantAdapterRequest) -> pb.Grant:
        """Grants an adapter. Raises NotFoundError for a tenant that is none, and as the store."""
        for tenant_id, field in (
            (request.owner_tenant_id, "owner_tenant_id"),
            (request.tenant_id, "tenant_id"),
        ):
            if not self._registry.is_valid(tenant_id):
                raise NotFoundError(
                    f"{field} names no tenant, or a revoked one: list the tenants", field=field
                )
        answer = await self._ask(
            "GrantAdapter",
            store_pb.AdapterStoreServiceGrantAdapterRequest(
                claim=self._claim(),
                owner_tenant_id=request.owner_tenant_id,
                adapter=request.adapter,
                tenant_id=request.tenant_id,
                alias=request.alias,
            ),
        )
        return _message(answer.grant)

    async def withdraw(self, tenant_id: str, digest: str) -> None:
        """Ends a grant. Raises NotFoundError."""
        await self._ask(
            "WithdrawAdapter",
            store_pb.AdapterStoreServiceWithdrawAdapterRequest(
                claim=self._claim(), tenant_id=tenant_id, digest=digest
            ),
        )

    async def list(self, tenant_id: str) -> list[pb.Grant]:
        """The grants to a tenant; "" for those to all."""
        answer = await self._ask(
            "ListGrants",
            store_pb.AdapterStoreServiceListGrantsRequest(claim=self._claim(), tenant_id=tenant_id),
        )
        return [_message(grant) for grant in answer.grants]

    async def end_those_of_revoked(self) -> None:
        """Withdraws the grants to and of revoked tenants. Raises when the store does not answer."""
        if all(tenant.revoked_at_s is None for tenant in self._registry.list()):
            return
        for grant in await self.list(""):
            if not all(map(self._registry.is_valid, (grant.owner_tenant_id, grant.tenant_id))):
                try:
                    await self.withdraw(grant.tenant_id, grant.digest)
                except NotFoundError:
                    continue  # ended meanwhile

    async def run(self) -> None:
        """Ends grants of revoked tenants that the store could not be told of, for ever."""
        while True:
            try:
                await self.end_those_of_revoked()
            except EdgeLoraError as error:
                get_logger().info("grants_not_checked", error=type(error).__name__)
            await asyncio.sleep(_UPKEEP_PERIOD_S)

    def _claim(self) -> Sealed:
        request_id = structlog.contextvars.get_contextvars().get("request_id") or uuid4().hex
        claim = OperatorClaim(
            expires_at_boot_s=self._boot_clock() + 2 * _STORE_S, request_id=request_id
        )
        return seal_operator_claim(self._sealer, claim)

    async def _ask(self, method: str, request: Any) -> Any:
        store = await self._upstream.store()
        with errors_of("adapter store"):
            return await getattr(store, method)(request, timeout=_STORE_S, metadata=call_metadata())


def _message(grant: store_pb.AdapterGrant) -> pb.Grant:
    return pb.Grant(
        owner_tenant_id=grant.owner_tenant_id,
        digest=grant.digest,
        tenant_id=grant.tenant_id,
        alias=grant.alias,
    )
