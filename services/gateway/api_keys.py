"""API keys of tenants, hashed.

A key is `el_<tenant>_<secret>`. The secret is 256 random bits as hex, so a plain SHA-256 of it is
enough: there is nothing to guess that a slow hash would protect.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence

from edgelora.errors import InvalidRequestError, NotFoundError
from services.gateway.key_times import KeyEnd
from services.gateway.tenant import ApiKey, Tenant
from services.gateway.tenant_file import TenantFile
from services.gateway.tenant_rows import KEY_COLUMNS, TENANT_COLUMNS, KeyRow, key_of, tenant_of

MAX_KEYS = 16
"""Of one tenant that hold."""
MAX_OVERLAP_S = 366 * 86_400.0
_SECRET_BYTES = 32
_KEY = re.compile(r"el_([A-Za-z0-9_-]{1,64})_([0-9a-f]{64})")


class ApiKeys(TenantFile):
    """The part of TenantRegistry that makes and looks up keys."""

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

    def holds_key(self, tenant_id: str, key_id: str) -> bool:
        """Whether a key and its tenant are still valid."""
        row = self._database.execute(
            f"SELECT {KEY_COLUMNS} FROM keys JOIN tenants USING (tenant_id) "  # noqa: S608 - a constant
            "WHERE tenant_id = ? AND number = ? AND tenants.revoked_at_s IS NULL",
            (tenant_id, key_id),
        ).fetchone()
        return row is not None and key_of(row).holds(self._now())

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


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


# What an unknown secret is compared with: random, so that no secret has this hash.
_NO_HASH = secrets.token_bytes(hashlib.sha256().digest_size)
