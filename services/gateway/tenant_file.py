"""tenants.sqlite: opened, changed as a whole, and read for who is a tenant."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgelora.errors import NotFoundError
from services.chassis.sealing import boot_clock_s
from services.gateway.boot import boot_id
from services.gateway.key_times import Now
from services.gateway.tenant import Tenant
from services.gateway.tenant_rows import TENANT_COLUMNS, tenant_of
from services.gateway.tenant_schema import migrate

FILE_NAME = "tenants.sqlite"


class TenantFile:
    """One handle. Several handles and processes may share one file."""

    def __init__(
        self,
        path: Path,
        wall_clock: Callable[[], float] = time.time,
        boot_clock: Callable[[], float] = boot_clock_s,
        this_boot: str | None = None,
    ) -> None:
        """Opens or makes the file. Raises OSError when a newer release wrote it."""
        self._wall_clock = wall_clock
        self._boot_clock = boot_clock
        self._boot_id = this_boot or boot_id()
        self._database = sqlite3.connect(path, isolation_level=None)
        try:
            self._database.execute("PRAGMA busy_timeout = 5000")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute("PRAGMA foreign_keys = ON")
            migrate(self._database)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def get(self, tenant_id: str) -> Tenant:
        """One tenant. Raises NotFoundError."""
        row = self._database.execute(
            f"SELECT {TENANT_COLUMNS} FROM tenants WHERE tenant_id = ?",  # noqa: S608 - a constant
            (tenant_id,),
        ).fetchone()
        if row is None:
            raise NotFoundError("there is no such tenant: list the tenants", field="tenant_id")
        return tenant_of(row)

    def is_valid(self, tenant_id: str) -> bool:
        """Whether there is such a tenant and it is not revoked."""
        row = self._database.execute(
            "SELECT 1 FROM tenants WHERE tenant_id = ? AND revoked_at_s IS NULL", (tenant_id,)
        ).fetchone()
        return row is not None

    def list(self) -> list[Tenant]:
        """All tenants, by id."""
        rows = self._database.execute(f"SELECT {TENANT_COLUMNS} FROM tenants ORDER BY tenant_id")  # noqa: S608 - a constant
        return [tenant_of(row) for row in rows]

    def find_by_spiffe_id(self, spiffe_id: str) -> Tenant | None:
        """The tenant that is this exact SPIFFE ID, None when there is none or it was revoked."""
        row = self._database.execute(
            f"SELECT {TENANT_COLUMNS} FROM tenants WHERE spiffe_id = ?",  # noqa: S608 - a constant
            (spiffe_id,),
        ).fetchone()
        tenant = None if row is None else tenant_of(row)
        return None if tenant is None or tenant.revoked_at_s is not None else tenant

    def _valid(self, tenant_id: str) -> Tenant:
        tenant = self.get(tenant_id)
        if tenant.revoked_at_s is not None:
            raise NotFoundError("this tenant was revoked: choose another", field="tenant_id")
        return tenant

    def _now(self) -> Now:
        return Now(wall_s=self._wall_clock(), boot_s=self._boot_clock(), boot_id=self._boot_id)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """All of some changes, or none."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
