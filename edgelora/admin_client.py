"""The operator's client."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, TypedDict, Unpack

from edgelora.connection import DEFAULT_CALL_S, NodeConnection
from edgelora.errors import NotFoundError
from edgelora.v1 import admin_service_pb2 as pb
from edgelora.v1.admin_service_pb2_grpc import AdminServiceStub
from edgelora.v1.monitor_service_pb2 import BatteryState, DeviceReport, ReportedTemperature

Role = Literal["user", "author", "trusted"]
"""What a tenant may do; each may do all the one before it may."""


class Quotas(TypedDict, total=False):
    """What a tenant may use; what is left out takes its default, or stays as it is."""

    max_concurrent_requests: int | None
    max_tokens_per_minute: int | None
    max_requests_per_minute: int | None
    max_adapters: int | None
    max_adapter_bytes: int | None


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
        role: Role | None = None,
        spiffe_id: str = "",
        **quotas: Unpack[Quotas],
    ) -> pb.CreateTenantResponse:
        """Makes a tenant; the answer holds the only copy of its API key.

        `spiffe_id`: what the tenant is over mutual TLS, `spiffe://TRUST-DOMAIN/tenant/TENANT`.
        Raises AlreadyExistsError when the id was ever used, InvalidRequestError.
        """
        with self._clear_errors():
            request = pb.CreateTenantRequest(
                tenant_id=tenant_id,
                role=_role(role),
                quotas=pb.TenantQuotas(**quotas),
                spiffe_id=spiffe_id,
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

    async def get_tenant(self, tenant_id: str) -> pb.Tenant:
        """One tenant. Raises NotFoundError."""
        for tenant in await self.list_tenants():
            if tenant.tenant_id == tenant_id:
                return tenant
        raise NotFoundError("there is no such tenant: list the tenants", field="tenant_id")

    async def update_tenant(
        self,
        tenant_id: str,
        *,
        role: Role | None = None,
        spiffe_id: str | None = None,
        **quotas: Unpack[Quotas],
    ) -> pb.Tenant:
        """Changes what is given; the tenant's next request sees it.

        `spiffe_id`: "" for none any more. Raises NotFoundError, InvalidRequestError.
        """
        with self._clear_errors():
            request = pb.UpdateTenantRequest(
                tenant_id=tenant_id,
                role=_role(role),
                quotas=pb.TenantQuotas(**quotas),
                spiffe_id=spiffe_id,
            )
            response = await self._stub.UpdateTenant(request, timeout=DEFAULT_CALL_S)
        tenant: pb.Tenant = response.tenant
        return tenant

    async def revoke_tenant(self, tenant_id: str) -> pb.Tenant:
        """Voids a tenant and its keys at once, and ends its grants. Raises NotFoundError."""
        with self._clear_errors():
            response = await self._stub.RevokeTenant(
                pb.RevokeTenantRequest(tenant_id=tenant_id), timeout=DEFAULT_CALL_S
            )
        tenant: pb.Tenant = response.tenant
        return tenant

    async def create_key(
        self, tenant_id: str, *, overlap_s: float | None = None
    ) -> pb.CreateKeyResponse:
        """Makes one more key of a tenant; the answer holds its only copy.

        `overlap_s`: the other keys end so many seconds from now; None leaves them as they are.
        Raises NotFoundError, InvalidRequestError.
        """
        with self._clear_errors():
            request = pb.CreateKeyRequest(tenant_id=tenant_id)
            if overlap_s is not None:
                request.overlap.FromTimedelta(timedelta(seconds=overlap_s))
            response: pb.CreateKeyResponse = await self._stub.CreateKey(
                request, timeout=DEFAULT_CALL_S
            )
        return response

    async def list_keys(self, tenant_id: str) -> list[pb.ApiKey]:
        """The keys of a tenant, without their secrets, newest first. Raises NotFoundError."""
        with self._clear_errors():
            response = await self._stub.ListKeys(
                pb.ListKeysRequest(tenant_id=tenant_id), timeout=DEFAULT_CALL_S
            )
        return list(response.keys)

    async def revoke_key(self, tenant_id: str, key_id: str) -> pb.ApiKey:
        """Voids one key at once. Raises NotFoundError."""
        with self._clear_errors():
            response = await self._stub.RevokeKey(
                pb.RevokeKeyRequest(tenant_id=tenant_id, key_id=key_id), timeout=DEFAULT_CALL_S
            )
        key: pb.ApiKey = response.key
        return key

    async def grant_adapter(
        self, owner_tenant_id: str, adapter: str, tenant_id: str, *, alias: str = ""
    ) -> pb.Grant:
        """Lets a tenant use an adapter of another one, under an alias of its own or by digest.

        Raises NotFoundError, AdapterNotFoundError, AlreadyExistsError, InvalidRequestError.
        """
        with self._clear_errors():
            request = pb.GrantAdapterRequest(
                owner_tenant_id=owner_tenant_id, adapter=adapter, tenant_id=tenant_id, alias=alias
            )
            response = await self._stub.GrantAdapter(request, timeout=DEFAULT_CALL_S)
        grant: pb.Grant = response.grant
        return grant

    async def withdraw_adapter(self, tenant_id: str, digest: str) -> None:
        """Ends a grant at once. Raises NotFoundError."""
        with self._clear_errors():
            await self._stub.WithdrawAdapter(
                pb.WithdrawAdapterRequest(tenant_id=tenant_id, digest=digest),
                timeout=DEFAULT_CALL_S,
            )

    async def list_grants(self, tenant_id: str = "") -> list[pb.Grant]:
        """The grants to a tenant, or to all."""
        with self._clear_errors():
            response = await self._stub.ListGrants(
                pb.ListGrantsRequest(tenant_id=tenant_id), timeout=DEFAULT_CALL_S
            )
        return list(response.grants)

    async def usage(self, tenant_id: str = "") -> list[pb.UsageTotal]:
        """What a tenant has used, or every one that used anything. Raises NotFoundError."""
        with self._clear_errors():
            response = await self._stub.GetUsage(
                pb.GetUsageRequest(tenant_id=tenant_id), timeout=DEFAULT_CALL_S
            )
        return list(response.totals)

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


def _role(role: Role | None) -> str | None:
    return None if role is None else f"ROLE_{role.upper()}"
