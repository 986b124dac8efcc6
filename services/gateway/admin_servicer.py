"""Translates the AdminService protos to the tenant registry and back, and hands reports on.

It is served on a unix socket of its own: whoever can open that is the operator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import grpc

from edgelora.errors import DeadlineExceededError, EdgeLoraError
from edgelora.v1 import admin_service_pb2 as pb
from edgelora.v1 import admin_service_pb2_grpc as rpc
from edgelora.v1.monitor_service_pb2 import DeviceReport, ReportReadingsRequest
from services.chassis.channel import call_metadata
from services.chassis.claims import seal_device_report
from services.chassis.device_report import check_device_report
from services.chassis.logs import get_logger
from services.chassis.sealing import Sealer, boot_clock_s
from services.gateway.grants import Grants
from services.gateway.roles import Role
from services.gateway.tenant import Tenant, TenantQuotas
from services.gateway.tenant_messages import (
    changed_quotas,
    key_message,
    role_of,
    tenant_message,
    usage_message,
)
from services.gateway.tenant_registry import TenantRegistry
from services.gateway.upstream import Upstream, errors_of, unavailable
from services.gateway.usage import Usage

_Context = grpc.aio.ServicerContext[Any, Any]
_REPORT_S = 2.0
"""How long a report may take to reach the monitor; an older one is worth nothing."""


class AdminServicer(rpc.AdminServiceServicer):
    """The operator's gRPC face."""

    def __init__(
        self,
        registry: TenantRegistry,
        grants: Grants,
        usage: Usage,
        upstream: Upstream,
        sealer: Sealer,
    ) -> None:
        self._registry = registry
        self._grants = grants
        self._usage = usage
        self._upstream = upstream
        self._sealer = sealer

    async def CreateTenant(
        self, request: pb.CreateTenantRequest, context: _Context
    ) -> pb.CreateTenantResponse:
        """Makes a tenant; the answer holds the only copy of its key."""
        quotas = changed_quotas(changed_quotas(TenantQuotas(), request.quotas), request)
        tenant, api_key = self._registry.create(
            request.tenant_id,
            role=role_of(request.role, otherwise=Role.AUTHOR),
            quotas=quotas,
            spiffe_id=request.spiffe_id or None,
        )
        return pb.CreateTenantResponse(tenant=tenant_message(tenant), api_key=api_key)

    async def ListTenants(
        self, request: pb.ListTenantsRequest, context: _Context
    ) -> pb.ListTenantsResponse:
        """Lists all tenants, without keys."""
        return pb.ListTenantsResponse(tenants=map(tenant_message, self._registry.list()))

    async def UpdateTenant(
        self, request: pb.UpdateTenantRequest, context: _Context
    ) -> pb.UpdateTenantResponse:
        """Changes a tenant's role, quotas and identity."""

        def change(tenant: Tenant) -> Tenant:
            spiffe_id = request.spiffe_id if request.HasField("spiffe_id") else tenant.spiffe_id
            return replace(
                tenant,
                role=role_of(request.role, otherwise=tenant.role),
                quotas=changed_quotas(tenant.quotas, request.quotas),
                spiffe_id=spiffe_id or None,
            )

        tenant = self._registry.update(request.tenant_id, change)
        return pb.UpdateTenantResponse(tenant=tenant_message(tenant))

    async def RevokeTenant(
        self, request: pb.RevokeTenantRequest, context: _Context
    ) -> pb.RevokeTenantResponse:
        """Voids a tenant and its keys at once, and ends the grants it gave and was given."""
        tenant = self._registry.revoke(request.tenant_id)
        try:
            await self._grants.end_those_of_revoked()
        except EdgeLoraError as error:
            # The tenant is out already, and its grants end when the store can be asked.
            get_logger().warning("grants_not_ended", error=type(error).__name__)
        return pb.RevokeTenantResponse(tenant=tenant_message(tenant))

    async def CreateKey(
        self, request: pb.CreateKeyRequest, context: _Context
    ) -> pb.CreateKeyResponse:
        """Makes one more key; the answer holds its only copy."""
        overlap_s = None
        if request.HasField("overlap"):
            overlap_s = request.overlap.seconds + request.overlap.nanos / 1e9
        key, api_key = self._registry.create_key(request.tenant_id, overlap_s=overlap_s)
        return pb.CreateKeyResponse(key=key_message(key), api_key=api_key)

    async def ListKeys(self, request: pb.ListKeysRequest, context: _Context) -> pb.ListKeysResponse:
        """Lists the keys of a tenant, without the secrets."""
        return pb.ListKeysResponse(keys=map(key_message, self._registry.keys(request.tenant_id)))

    async def RevokeKey(
        self, request: pb.RevokeKeyRequest, context: _Context
    ) -> pb.RevokeKeyResponse:
        """Voids one key at once."""
        key = self._registry.revoke_key(request.tenant_id, request.key_id)
        return pb.RevokeKeyResponse(key=key_message(key))

    async def GrantAdapter(
        self, request: pb.GrantAdapterRequest, context: _Context
    ) -> pb.GrantAdapterResponse:
        """Lets a tenant use an adapter of another one."""
        return pb.GrantAdapterResponse(grant=await self._grants.grant(request))

    async def WithdrawAdapter(
        self, request: pb.WithdrawAdapterRequest, context: _Context
    ) -> pb.WithdrawAdapterResponse:
        """Ends a grant."""
        await self._grants.withdraw(request.tenant_id, request.digest)
        return pb.WithdrawAdapterResponse()

    async def ListGrants(
        self, request: pb.ListGrantsRequest, context: _Context
    ) -> pb.ListGrantsResponse:
        """Lists the grants to a tenant, or to all."""
        return pb.ListGrantsResponse(grants=await self._grants.list(request.tenant_id))

    async def GetUsage(self, request: pb.GetUsageRequest, context: _Context) -> pb.GetUsageResponse:
        """Tells what one tenant has used, or each that used anything."""
        totals = self._usage.totals()
        if request.tenant_id:
            self._registry.get(request.tenant_id)
            totals = {name: total for name, total in totals.items() if name == request.tenant_id}
        return pb.GetUsageResponse(
            totals=[usage_message(name, totals[name], self._usage) for name in sorted(totals)]
        )

    async def ReportDevice(
        self, request: pb.ReportDeviceRequest, context: _Context
    ) -> pb.ReportDeviceResponse:
        """Seals what an outside source has measured and hands it to the monitor."""
        check_device_report(request.report)
        report = DeviceReport()
        report.CopyFrom(request.report)
        report.expires_at_boot_s = boot_clock_s() + _REPORT_S
        sealed = seal_device_report(self._sealer, report)
        monitor = await self._upstream.monitor()
        try:
            with errors_of("monitor"):
                await monitor.ReportReadings(
                    ReportReadingsRequest(report=sealed),
                    timeout=_REPORT_S,
                    metadata=call_metadata(),
                )
        except DeadlineExceededError:
            raise unavailable("monitor") from None  # the limit is ours, not the caller's
        return pb.ReportDeviceResponse()
