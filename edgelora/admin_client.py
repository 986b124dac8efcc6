"""The operator's client."""

from __future__ import annotations

from typing import Any

from edgelora.connection import DEFAULT_CALL_S, NodeConnection
from edgelora.v1 import admin_service_pb2 as pb
from edgelora.v1.admin_service_pb2_grpc import AdminServiceStub


class AdminClient(NodeConnection):
    """The operator's view of a node, through its admin socket.

    async with AdminClient("unix:/run/edgelora/admin.sock") as admin:
        created = await admin.create_tenant("alice")
        print(created.api_key)
    """

    def __init__(self, address: str) -> None:
        """Connects at the first call to `unix:/path`."""
        super().__init__(address)
        self._stub: Any = AdminServiceStub(self._channel)  # type: ignore[no-untyped-call]

    async def create_tenant(
        self,
        tenant_id: str,
        *,
        max_concurrent_requests: int | None = None,
        max_tokens_per_minute: int | None = None,
    ) -> pb.CreateTenantResponse:
        """Makes a tenant; the answer holds the only copy of its API key.

        Raises AlreadyExistsError when the id was ever used.
        """
        with self._clear_errors():
            request = pb.CreateTenantRequest(
                tenant_id=tenant_id,
                max_concurrent_requests=max_concurrent_requests,
                max_tokens_per_minute=max_tokens_per_minute,
            )
            response: pb.CreateTenantResponse = await self._stub.CreateTenant(
                request, timeout=DEFAULT_CALL_S
            )
        return response

    async def list_tenants(self) -> list[pb.Tenant]:
        """All tenants, by id."""
        with self._clear_errors():
            response = await self._stub.ListTenants(pb.ListTenantsRequest(), timeout=DEFAULT_CALL_S)
        return list(response.tenants)

    async def revoke_tenant(self, tenant_id: str) -> pb.Tenant:
        """Voids a tenant's key at once. Raises NotFoundError."""
        with self._clear_errors():
            response = await self._stub.RevokeTenant(
                pb.RevokeTenantRequest(tenant_id=tenant_id), timeout=DEFAULT_CALL_S
            )
        tenant: pb.Tenant = response.tenant
        return tenant
