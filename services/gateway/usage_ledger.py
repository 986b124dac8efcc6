"""Keeps what the tenants have used, in SQLite.

Written every second, with what still runs counted as far as it got: the gateway's death, or the
node's, loses at most the last second of use and whatever one slow write takes. Nothing a tenant
does, ending or cutting its requests included, makes it more.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path

from services.chassis.logs import get_logger
from services.gateway.ledger_file import open_ledger
from services.gateway.usage import Usage, UsageTotal, Used

FILE_NAME = "usage.sqlite"
PERIOD_S = 1.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS usage (
    tenant_id TEXT PRIMARY KEY,
    num_requests INTEGER NOT NULL,
    num_refused INTEGER NOT NULL,
    num_prompt_tokens INTEGER NOT NULL,
    num_output_tokens INTEGER NOT NULL,
    engine_s REAL NOT NULL,
    since_s REAL NOT NULL
) STRICT
"""


class UsageLedger:
    """The totals on disk. One gateway writes it, from any thread."""

    def __init__(self, path: Path) -> None:
        self._database = open_ledger(path, _prepare)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._database.close()

    def load(self) -> dict[str, UsageTotal]:
        """All totals, by tenant."""
        rows = self._database.execute(
            "SELECT tenant_id, num_requests, num_refused, num_prompt_tokens, num_output_tokens, "
            "engine_s, since_s FROM usage"
        )
        return {
            tenant_id: UsageTotal(
                used=Used(
                    num_requests=num_requests,
                    num_refused=num_refused,
                    num_prompt_tokens=num_prompt_tokens,
                    num_output_tokens=num_output_tokens,
                    engine_s=engine_s,
                ),
                since_s=since_s,
            )
            for (
                tenant_id,
                num_requests,
                num_refused,
                num_prompt_tokens,
                num_output_tokens,
                engine_s,
                since_s,
            ) in rows
        }

    def save(self, totals: Mapping[str, UsageTotal]) -> None:
        """Replaces totals, all or none. Raises sqlite3.Error."""
        if not totals:
            return
        rows = [
            (
                tenant_id,
                total.used.num_requests,
                total.used.num_refused,
                total.used.num_prompt_tokens,
                total.used.num_output_tokens,
                total.used.engine_s,
                total.since_s,
            )
            for tenant_id, total in totals.items()
        ]
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._database.executemany(
                    "INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?, ?, ?, ?)", rows
                )
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise


async def keep(usage: Usage, ledger: UsageLedger) -> None:
    """Writes what changed every second, beside the event loop, for ever."""
    unwritten: dict[str, UsageTotal] = {}
    while True:
        await asyncio.sleep(PERIOD_S)
        unwritten |= usage.changed()
        try:
            await asyncio.to_thread(ledger.save, unwritten)
        except sqlite3.Error as error:
            # Kept for the next turn: storage may be full for a while.
            get_logger().warning("usage_not_written", error=type(error).__name__)
        else:
            unwritten = {}


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA synchronous = FULL")
    database.execute(_SCHEMA)
