"""Tenants and their hashed API keys, in SQLite. Every look-up reads the file: revoking is at once.

A key is `el_<tenant>_<secret>`. The secret is 256 random bits as hex, so a plain SHA-256 of it is
enough: there is nothing to guess that a slow hash would protect.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgelora.errors import AlreadyExistsError, InvalidRequestError, NotFoundError
from services.chassis.sealing import boot_clock_s
from services.gateway.boot import boot_id
from services.gateway.key_times import KeyEnd, Now
from services.gateway.roles import Role
from services.gateway.spiffe import check_spiffe_id
from services.gateway.tenant import TENANT_ID, ApiKey, Tenant, TenantQuotas
from services.gateway.tenant_rows import KEY_COLUMNS, TENANT_COLUMNS, KeyRow, key_of, tenant_of
from services.gateway.tenant_schema import migrate

FILE_NAME = "tenants.sqlite"
MAX_KEYS = 16
"""Of one tenant that are not revoked."""
MAX_OVERLAP_S = 366 * 86_400.0
_SECRET_BYTES = 32
_KEY = re.compile(r"el_([A-Za-z0-9_-]{1,64})_([0-9a-f]{64})")


class TenantRegistry:
    """The tenants of a node. Several handles and processes may share one file."""

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

    def revoke(self, tenant_id: str) -> Tenant:
        """Voids a tenant and its keys for ever. Raises NotFoundError. Again changes nothing."""
        self._database.execute(
            "UPDATE tenants SET revoked_at_s = ? WHERE tenant_id = ? AND revoked_at_s IS NULL",
            (self._wall_clock(), tenant_id),
        )
        return self.get(tenant_id)

    def create_key(self, tenant_id: str, *, overlap_s: float | None = None) -> tuple[ApiKey, str]:
        """Adds a key; returns it and its only copy.

        `overlap_s`: the tenant's other keys end so many seconds from now, unless sooner; None
        leaves them as they are. Raises NotFoundError, InvalidRequestError.
        """
        if overlap_s is not None and not 0 <= overlap_s <= MAX_OVERLAP_S:
            raise InvalidRequestError(
                f"overlap must be 0 to {MAX_OVERLAP_S:.0f} seconds", field="overlap"
            )
        with self._changing():
            self._valid(tenant_id)
            now = self._now()
            others = [row for row in self._key_rows(tenant_id) if row.holds(now)]
            if len(others) >= MAX_KEYS:
                raise InvalidRequestError(
                    f"a tenant has at most {MAX_KEYS} keys that hold: revoke one", field="tenant_id"
                )
            if overlap_s is not None:
                end = KeyEnd.after(overlap_s, now)
                for row in others:
                    if row.end is None or end.expires_at_s < row.end.expires_at_s:
                        self._give_end(tenant_id, row.number, end)
            return self._add_key(tenant_id)

    def keys(self, tenant_id: str) -> Sequence[ApiKey]:
        """All keys of a tenant, newest first. Raises NotFoundError."""
        self.get(tenant_id)
        return [row.key for row in self._key_rows(tenant_id)]

    def revoke_key(self, tenant_id: str, key_id: str) -> ApiKey:
        """Voids one key for ever. Raises NotFoundError. Again changes nothing."""
        with self._changing():
            for row in self._key_rows(tenant_id):
                if row.key.key_id == key_id:
                    self._database.execute(
                        "UPDATE keys SET revoked_at_s = coalesce(revoked_at_s, ?) "
                        "WHERE tenant_id = ? AND number = ?",
                        (self._wall_clock(), tenant_id, row.number),
                    )
        for key in self.keys(tenant_id):
            if key.key_id == key_id:
                return key
        raise NotFoundError("this tenant has no such key: list its keys", field="key_id")

    def find_by_key(self, api_key: str) -> tuple[Tenant, ApiKey] | None:
        """Whom a key belongs to; None when it is malformed, unknown, wrong, ended or revoked.

        All take the same steps, so that neither answer nor time tells them apart: one look-up by
        the secret's hash, which nobody without a key can aim, and every check.
        """
        match = _KEY.fullmatch(api_key)
        tenant_id, secret = match.groups() if match else ("", "")
        key_hash = _hash(secret)
        row = self._database.execute(
            f"SELECT key_hash, {KEY_COLUMNS}, {TENANT_COLUMNS} "  # noqa: S608 - constants
            "FROM keys JOIN tenants USING (tenant_id) WHERE key_hash = ?",
            (key_hash,),
        ).fetchone()
        expected: bytes = _NO_HASH if row is None else row[0]
        is_right = hmac.compare_digest(expected, key_hash)
        if row is None or not is_right:
            return None
        key_row, tenant = key_of(row[1:8]), tenant_of(row[8:])
        is_whose = hmac.compare_digest(tenant.tenant_id, tenant_id)
        holds = key_row.holds(self._now()) and tenant.revoked_at_s is None
        return (tenant, key_row.key) if is_whose and holds else None

    def find_by_spiffe_id(self, spiffe_id: str) -> Tenant | None:
        """The tenant that is this exact SPIFFE ID, None when there is none or it was revoked."""
        row = self._database.execute(
            f"SELECT {TENANT_COLUMNS} FROM tenants WHERE spiffe_id = ?",  # noqa: S608 - a constant
            (spiffe_id,),
        ).fetchone()
        tenant = None if row is None else tenant_of(row)
        return None if tenant is None or tenant.revoked_at_s is not None else tenant

    def holds_key(self, tenant_id: str, key_id: str) -> bool:
        """Whether a key and its tenant are still valid."""
        row = self._database.execute(
            f"SELECT {KEY_COLUMNS} FROM keys JOIN tenants USING (tenant_id) "  # noqa: S608 - a constant
            "WHERE tenant_id = ? AND number = ? AND tenants.revoked_at_s IS NULL",
            (tenant_id, key_id),
        ).fetchone()
        return row is not None and key_of(row).holds(self._now())

    def _now(self) -> Now:
        return Now(wall_s=self._wall_clock(), boot_s=self._boot_clock(), boot_id=self._boot_id)

    def _valid(self, tenant_id: str) -> Tenant:
        tenant = self.get(tenant_id)
        if tenant.revoked_at_s is not None:
            raise NotFoundError("this tenant was revoked: choose another", field="tenant_id")
        return tenant

    def _key_rows(self, tenant_id: str) -> Sequence[KeyRow]:
        rows = self._database.execute(
            f"SELECT {KEY_COLUMNS} FROM keys WHERE tenant_id = ? ORDER BY number DESC",  # noqa: S608 - a constant
            (tenant_id,),
        )
        return [key_of(row) for row in rows]

    def _add_key(self, tenant_id: str) -> tuple[ApiKey, str]:
        secret = secrets.token_hex(_SECRET_BYTES)
        created_at_s = self._wall_clock()
        (number,) = self._database.execute(
            "INSERT INTO keys (tenant_id, number, key_hash, created_at_s) "
            "SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3 FROM keys WHERE tenant_id = ?1 "
            "RETURNING number",
            (tenant_id, _hash(secret), created_at_s),
        ).fetchone()
        key = ApiKey(
            key_id=str(number), created_at_s=created_at_s, expires_at_s=None, revoked_at_s=None
        )
        return key, f"el_{tenant_id}_{secret}"

    def _give_end(self, tenant_id: str, number: int, end: KeyEnd) -> None:
        self._database.execute(
            "UPDATE keys SET end_given_at_s = ?, expires_at_s = ?, expires_at_boot_s = ?, "
            "boot_id = ? WHERE tenant_id = ? AND number = ?",
            (
                end.given_at_s,
                end.expires_at_s,
                end.expires_at_boot_s,
                end.boot_id,
                tenant_id,
                number,
            ),
        )

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


def _check(tenant: Tenant) -> None:
    tenant.quotas.check()
    if tenant.spiffe_id is not None:
        check_spiffe_id(tenant.spiffe_id, tenant.tenant_id)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


# What an unknown secret is compared with: random, so that no secret has this hash.
_NO_HASH = secrets.token_bytes(hashlib.sha256().digest_size)
