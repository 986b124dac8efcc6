"""Tenants and their hashed keys, in SQLite. Every look-up reads the file: revoking is at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from edgelora.errors import AlreadyExistsError, InvalidRequestError
from services.gateway.api_keys import ApiKeys
from services.gateway.roles import Role
from services.gateway.spiffe import check_spiffe_id
from services.gateway.tenant import TENANT_ID, Tenant, TenantQuotas


class TenantRegistry(ApiKeys):
    """The tenants of a node."""

    def create(
        self,
        tenant_id: str,
        *,
        role: Role = Role.AUTHOR,
        quotas: TenantQuotas | None = None,
        spiffe_id: str | None = None,
    ) -> tuple[Tenant, str]:
        """Adds a tenant; returns it and the only copy of its key.

        Raises InvalidRequestError for a bad id or quota, AlreadyExistsError when the id was ever
        used: a revoked tenant's adapters must not fall to another party.
        """
        if not TENANT_ID.fullmatch(tenant_id):
            raise InvalidRequestError(
                'tenant_id must be 1 to 64 letters, digits, "_" or "-"', field="tenant_id"
            )
        tenant = Tenant(
            tenant_id=tenant_id,
            role=role,
            quotas=quotas or TenantQuotas(),
            spiffe_id=spiffe_id,
            created_at_s=self._wall_clock(),
            revoked_at_s=None,
        )
        _check(tenant)
        with self._changing():
            try:
                self._write(tenant)
            except sqlite3.IntegrityError:
                raise AlreadyExistsError(
                    "this tenant_id is taken or was revoked: choose another", field="tenant_id"
                ) from None
            _, api_key = self._add_key(tenant_id)
        return tenant, api_key

    def update(self, tenant_id: str, change: Callable[[Tenant], Tenant]) -> Tenant:
        """Replaces a tenant by what `change` makes of it. Its requests see it from now on.

        Raises NotFoundError when there is none or it was revoked, InvalidRequestError.
        """
        with self._changing():
            tenant = change(self._valid(tenant_id))
            _check(tenant)
            self._write(tenant, replace=True)
        return tenant

    def revoke(self, tenant_id: str) -> Tenant:
        """Voids a tenant and its keys for ever. Raises NotFoundError. Again changes nothing."""
        self._database.execute(
            "UPDATE tenants SET revoked_at_s = ? WHERE tenant_id = ? AND revoked_at_s IS NULL",
            (self._wall_clock(), tenant_id),
        )
        return self.get(tenant_id)

    def _write(self, tenant: Tenant, *, replace: bool = False) -> None:
        quotas = tenant.quotas
        values = (
            tenant.role.name.lower(),
            quotas.max_concurrent_requests,
            quotas.max_tokens_per_minute,
            quotas.max_requests_per_minute,
            quotas.max_adapters,
            quotas.max_adapter_bytes,
            tenant.spiffe_id,
        )
        if replace:
            self._database.execute(
                "UPDATE tenants SET role = ?, max_concurrent_requests = ?, "
                "max_tokens_per_minute = ?, max_requests_per_minute = ?, max_adapters = ?, "
                "max_adapter_bytes = ?, spiffe_id = ? WHERE tenant_id = ?",
                (*values, tenant.tenant_id),
            )
        else:
            self._database.execute(
                "INSERT INTO tenants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (tenant.tenant_id, *values, tenant.created_at_s),
            )


def _check(tenant: Tenant) -> None:
    tenant.quotas.check()
    if tenant.spiffe_id is not None:
        check_spiffe_id(tenant.spiffe_id, tenant.tenant_id)
