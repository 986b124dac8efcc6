"""Translates the AdminService protos to the tenant registry and back, and hands reports on.

It is served on a unix socket of its own: whoever can open that is the operator.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from edgelora.errors import DeadlineExceededError
from edgelora.v1 import admin_service_pb2 as pb
from edgelora.v1 import admin_service_pb2_grpc as rpc
from edgelora.v1.monitor_service_pb2 import DeviceReport, ReportReadingsRequest
from services.chassis.channel import call_metadata
from services.chassis.claims import seal_device_report
from services.chassis.device_report import check_device_report
from services.chassis.sealing import Sealer, boot_clock_s
from services.gateway.tenant_registry import (
    DEFAULT_MAX_CONCURRENT_REQUESTS,
    DEFAULT_MAX_TOKENS_PER_MINUTE,
    Tenant,
    TenantRegistry,
)
from services.gateway.upstream import Upstream, errors_of, unavailable

_Context = grpc.aio.ServicerContext[Any, Any]
_REPORT_S = 2.0
"""How long a report may take to reach the monitor; an older one is worth nothing."""


class AdminServicer(rpc.AdminServiceServicer):
    """The operator's gRPC face."""

    def __init__(self, registry: TenantRegistry, upstream: Upstream, sealer: Sealer) -> None:
        self._registry = registry
        self._upstream = upstream
        self._sealer = sealer

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
