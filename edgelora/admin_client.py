"""The operator's client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgelora.connection import DEFAULT_CALL_S, NodeConnection
from edgelora.v1 import admin_service_pb2 as pb
from edgelora.v1.admin_service_pb2_grpc import AdminServiceStub
from edgelora.v1.monitor_service_pb2 import BatteryState, DeviceReport, ReportedTemperature


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

    async def report_device(
        self,
        source: str,
        *,
        battery_charge: float | None = None,
        battery_state: BatteryState = BatteryState.BATTERY_STATE_UNSPECIFIED,
        temperatures: Mapping[str, float] | None = None,
    ) -> None:
        """Tells the node what something outside of it has measured, for example a vehicle.

        Args:
            source: Letters, digits, "_" and "-", at most 64.
            battery_charge: 0 to 1.
            battery_state: A low charge counts while it discharges, and is unknown without this.
            temperatures: Name -> degrees Celsius, -40 to 150, at most 16.

        It replaces the source's last report and is good for 3 s: report about once a second. A
        source that falls silent is unknown until `withdraw_device`. Raises InvalidRequestError, and
        ResourcePressureError for a 17th source.
        """
        report = DeviceReport(
            source=source,
            battery_charge=battery_charge,
            battery_state=battery_state,
            temperatures=[
                ReportedTemperature(name=name, temperature_celsius=celsius)
                for name, celsius in (temperatures or {}).items()
            ],
        )
        await self._report(report)

    async def withdraw_device(self, source: str) -> None:
        """Forgets a source that went away for good. Raises InvalidRequestError."""
        await self._report(DeviceReport(source=source, is_withdrawn=True))

    async def _report(self, report: DeviceReport) -> None:
        with self._clear_errors():
            await self._stub.ReportDevice(
                pb.ReportDeviceRequest(report=report), timeout=DEFAULT_CALL_S
            )
