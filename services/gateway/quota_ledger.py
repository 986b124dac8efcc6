"""Keeps the balances of all tenants across a crash of the gateway, in SQLite.

Losing them to a power cut costs nothing worth an fsync on every request, so nothing is synced:
the file survives the death of the process, which is what a tenant could provoke. A running
request's reservation is kept as spent, so that crashing never refills a quota.
"""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path

from services.gateway.admission import Balance
from services.gateway.boot import boot_id
from services.gateway.ledger_file import open_ledger

FILE_NAME = "quota.sqlite"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS balances (
    tenant_id TEXT PRIMARY KEY,
    tokens REAL NOT NULL,
    at_boot_s REAL NOT NULL,
    boot_id TEXT NOT NULL,
    requests REAL
) STRICT
"""
_ADD_REQUESTS = "ALTER TABLE balances ADD COLUMN requests REAL"
"""For a file of the first version, which did not count them: there a balance of none is full."""


class QuotaLedger:
    """The balances on disk. One gateway writes it."""

    def __init__(self, path: Path, this_boot: str | None = None) -> None:
        self._boot_id = this_boot or boot_id()
        self._database = open_ledger(path, _prepare)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def load(self, now_boot_s: float) -> dict[str, Balance]:
        """All balances. Those of an earlier boot stand still: how long ago they were is unknown."""
        rows = self._database.execute(
            "SELECT tenant_id, tokens, requests, at_boot_s, boot_id FROM balances"
        )
        return {
            tenant_id: Balance(
                tokens=tokens,
                requests=math.inf if requests is None else requests,
                at_s=at_boot_s if then == self._boot_id else now_boot_s,
            )
            for tenant_id, tokens, requests, at_boot_s, then in rows
        }

    def save(self, tenant_id: str, balance: Balance) -> None:
        """Writes one balance."""
        self._database.execute(
            "INSERT OR REPLACE INTO balances (tenant_id, tokens, requests, at_boot_s, boot_id) "
            "VALUES (?, ?, ?, ?, ?)",
            (tenant_id, balance.tokens, balance.requests, balance.at_s, self._boot_id),
        )


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA synchronous = OFF")
    database.execute(_SCHEMA)
    columns = {row[1] for row in database.execute("PRAGMA table_info(balances)")}
    if "requests" not in columns:
        database.execute(_ADD_REQUESTS)
