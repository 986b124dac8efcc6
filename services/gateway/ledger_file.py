"""SQLite files of what can be counted anew: a damaged one is set aside, not a reason to stop."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path


def open_ledger(path: Path, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """Opens or makes a file; `prepare` sets it up, and fails with DatabaseError on a damaged one.

    Raises sqlite3.OperationalError when it is locked or must not be written.
    """
    try:
        return _connect(path, prepare)
    except sqlite3.OperationalError:
        raise  # locked or not allowed, which says nothing of what it holds
    except sqlite3.DatabaseError:
        # Torn by a power cut: set it aside for whoever wants to look, and start anew.
        path.replace(path.with_suffix(".damaged"))
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return _connect(path, prepare)


def _connect(path: Path, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        prepare(database)
    except sqlite3.Error:
        database.close()
        raise
    return database
