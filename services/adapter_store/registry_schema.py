"""Schema of the registry, and its migrations by `user_version`."""

from __future__ import annotations

import sqlite3

_V1 = """
CREATE TABLE adapters (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    base_digest TEXT NOT NULL,
    rank INTEGER NOT NULL,
    alpha REAL NOT NULL,
    target_modules TEXT NOT NULL,
    num_parameters INTEGER NOT NULL,
    config_blob TEXT NOT NULL,
    weights_blob TEXT NOT NULL,
    config_bytes INTEGER NOT NULL,
    weights_bytes INTEGER NOT NULL,
    registered_at REAL NOT NULL,
    description TEXT NOT NULL,
    PRIMARY KEY (tenant, digest)
) WITHOUT ROWID;
CREATE INDEX adapters_by_time ON adapters (tenant, registered_at DESC, digest);
CREATE INDEX adapters_by_digest ON adapters (digest);
CREATE INDEX adapters_by_config_blob ON adapters (config_blob);
CREATE INDEX adapters_by_weights_blob ON adapters (weights_blob);
CREATE TABLE aliases (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (tenant, name),
    FOREIGN KEY (tenant, digest) REFERENCES adapters (tenant, digest) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX aliases_by_digest ON aliases (tenant, digest);
"""

MIGRATIONS: tuple[str, ...] = (_V1,)
"""Statements that lead from version i to version i + 1. Appended to, never edited."""


def migrate(connection: sqlite3.Connection) -> None:
    """Brings a database to the current schema, one transaction a version.

    Raises OSError when a newer release wrote it.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise OSError(
            f"the adapter registry has schema version {version}, this release knows "
            f"{len(MIGRATIONS)}: use the newer release, or another directory"
        )
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {number}; COMMIT;"
        )
