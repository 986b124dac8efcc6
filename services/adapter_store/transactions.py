"""All of some changes of an SQLite file, or none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commits what its body changes, or rolls all of it back. Waits for other writers first.

    The connection commits nothing by itself (`isolation_level=None`). Raises sqlite3.Error.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself after some storage errors.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
