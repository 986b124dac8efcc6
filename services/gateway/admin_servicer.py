"""Translates the AdminService protos to the tenant registry and back.

It is served on a unix socket of its own: whoever can open that is the operator.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.v1 import admin_service_pb2 as pb
from edgelora.v1 import admin_service_pb2_grpc as rpc
from services.gateway.tenant_registry import (
    DEFAULT_MAX_CONCURRENT_REQUESTS,
    DEFAULT_MAX_TOKENS_PER_MINUTE,
    Tenant,
    TenantRegistry,
)

_Context = grpc.aio.ServicerContext[Any, Any]


class AdminServicer(rpc.AdminServiceServicer):
    """The gRPC face of the tenant registry."""

    def __init__(self, registry: TenantRegistry) -> None:
        self._registry = registry

    async def CreateTenant(
        self, request: pb.CreateTenantRequest, context: _Context
    ) -> pb.CreateTenantResponse:
        """Makes a tenant; the answer holds the only copy of its key."""
        tenant, api_key = self._registry.create(
            request.tenant_id,
            max_concurrent_requests=request.max_concurrent_requests
            if request.HasField("max_concurrent_requests")
            else DEFAULT_MAX_CONCURRENT_REQUESTS,
            max_tokens_per_minute=request.max_tokens_per_minute
            if request.HasField("max_tokens_per_minute")
            else DEFAULT_MAX_TOKENS_PER_MINUTE,
        )
        return pb.CreateTenantResponse(tenant=_message(tenant), api_key=api_key)

    async def ListTenants(
        self, request: pb.ListTenantsRequest, context: _Context
    ) -> pb.ListTenantsResponse:
        """Lists all tenants, without keys."""
        return pb.ListTenantsResponse(
            tenants=[_message(tenant) for tenant in self._registry.list()]
        )

    async def RevokeTenant(
        self, request: pb.RevokeTenantRequest, context: _Context
    ) -> pb.RevokeTenantResponse:
        """Voids a tenant's key at once."""
        return pb.RevokeTenantResponse(tenant=_message(self._registry.revoke(request.tenant_id)))


def _message(tenant: Tenant) -> pb.Tenant:
    message = pb.Tenant(
        tenant_id=tenant.tenant_id,
        max_concurrent_requests=tenant.max_concurrent_requests,
        max_tokens_per_minute=tenant.max_tokens_per_minute,
        created_at=_timestamp(tenant.created_at_s),
    )
    if tenant.revoked_at_s is not None:
        message.revoked_at.CopyFrom(_timestamp(tenant.revoked_at_s))
    return message


def _timestamp(unix_s: float) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromMicroseconds(round(unix_s * 1_000_000))
    return timestamp
