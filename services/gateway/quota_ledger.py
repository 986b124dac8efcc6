"""Keeps the balances of all tenants across a crash of the gateway, in SQLite.

Losing them to a power cut costs nothing worth an fsync on every request, so nothing is synced:
the file survives the death of the process, which is what a tenant could provoke. A running
request's reservation is kept as spent, so that crashing never refills a quota.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from services.gateway.admission import Balance

FILE_NAME = "quota.sqlite"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS balances (
    tenant_id TEXT PRIMARY KEY,
    tokens REAL NOT NULL,
    at_boot_s REAL NOT NULL,
    boot_id TEXT NOT NULL
) STRICT
"""


class QuotaLedger:
    """The balances on disk. One gateway writes it."""

    def __init__(self, path: Path, boot_id: str | None = None) -> None:
        self._boot_id = boot_id or _BOOT_ID.read_text().strip()
        self._database = _open(path)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def load(self, now_boot_s: float) -> dict[str, Balance]:
        """All balances. Those of an earlier boot stand still: how long ago they were is unknown."""
        rows = self._database.execute("SELECT tenant_id, tokens, at_boot_s, boot_id FROM balances")
        return {
            tenant_id: Balance(
                tokens=tokens, at_s=at_boot_s if boot_id == self._boot_id else now_boot_s
            )
            for tenant_id, tokens, at_boot_s, boot_id in rows
        }

    def save(self, tenant_id: str, balance: Balance) -> None:
        """Writes one balance."""
        self._database.execute(
            "INSERT INTO balances VALUES (?, ?, ?, ?) ON CONFLICT (tenant_id) DO UPDATE SET "
            "tokens = excluded.tokens, at_boot_s = excluded.at_boot_s, boot_id = excluded.boot_id",
            (tenant_id, balance.tokens, balance.at_s, self._boot_id),
        )


def _open(path: Path) -> sqlite3.Connection:
    try:
        return _connect(path)
    except sqlite3.OperationalError:
        raise  # locked or not allowed, which says nothing of what it holds
    except sqlite3.DatabaseError:
        # Torn by a power cut: set it aside for whoever wants to look, and start anew.
        path.replace(path.with_suffix(".damaged"))
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute(_SCHEMA)
    except sqlite3.Error:
        database.close()
        raise
    return database
