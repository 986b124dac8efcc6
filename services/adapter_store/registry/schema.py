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

# What is true of the content, once for all tenants, apart from what is true of a tenant's adapter.
# Contents of version 1 lie on flash as they were sent, and nothing was measured.
_V2 = """
ALTER TABLE adapters RENAME TO adapters_v1;
ALTER TABLE aliases RENAME TO aliases_v1;
DROP INDEX adapters_by_time;
DROP INDEX adapters_by_digest;
DROP INDEX adapters_by_config_blob;
DROP INDEX adapters_by_weights_blob;
DROP INDEX aliases_by_digest;
CREATE TABLE contents (
    digest TEXT NOT NULL PRIMARY KEY,
    base_digest TEXT NOT NULL,
    rank INTEGER NOT NULL,
    alpha REAL NOT NULL,
    target_modules TEXT NOT NULL,
    num_parameters INTEGER NOT NULL,
    weights_bytes INTEGER NOT NULL,
    form TEXT NOT NULL,
    config_blob TEXT,
    config_blob_bytes INTEGER,
    weights_blob TEXT,
    weights_blob_bytes INTEGER,
    encoded_blob TEXT,
    encoded_blob_bytes INTEGER,
    certificate_digest TEXT,
    is_on_flash INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX contents_by_config_blob ON contents (config_blob);
CREATE INDEX contents_by_weights_blob ON contents (weights_blob);
CREATE INDEX contents_by_encoded_blob ON contents (encoded_blob);
INSERT OR IGNORE INTO contents
SELECT digest, base_digest, rank, alpha, target_modules, num_parameters, weights_bytes, 'exact',
    config_blob, config_bytes, weights_blob, weights_bytes, NULL, NULL, NULL, 1
FROM adapters_v1;
CREATE TABLE certificates (
    digest TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL,
    FOREIGN KEY (digest) REFERENCES contents (digest) ON DELETE CASCADE
);
CREATE TABLE adapters (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    registered_at REAL NOT NULL,
    description TEXT NOT NULL,
    package TEXT,
    parent_digest TEXT,
    is_pinned INTEGER NOT NULL,
    PRIMARY KEY (tenant, digest),
    FOREIGN KEY (digest) REFERENCES contents (digest)
) WITHOUT ROWID;
INSERT INTO adapters
SELECT tenant, digest, registered_at, description, NULL, NULL, 0 FROM adapters_v1;
CREATE INDEX adapters_by_time ON adapters (tenant, registered_at DESC, digest);
CREATE INDEX adapters_by_digest ON adapters (digest);
CREATE INDEX adapters_pinned ON adapters (digest) WHERE is_pinned;
CREATE TABLE aliases (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (tenant, name),
    FOREIGN KEY (tenant, digest) REFERENCES adapters (tenant, digest) ON DELETE CASCADE
) WITHOUT ROWID;
INSERT INTO aliases SELECT tenant, name, digest, generation FROM aliases_v1;
CREATE INDEX aliases_by_digest ON aliases (tenant, digest);
DROP TABLE aliases_v1;
DROP TABLE adapters_v1;
CREATE TABLE usage (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    counters TEXT NOT NULL,
    PRIMARY KEY (tenant, digest),
    FOREIGN KEY (tenant, digest) REFERENCES adapters (tenant, digest) ON DELETE CASCADE
) WITHOUT ROWID;
"""

# The highest generation of any alias a tenant has removed: a name never has a generation twice.
_V3 = """
CREATE TABLE removed_generations (
    tenant TEXT NOT NULL PRIMARY KEY,
    generation INTEGER NOT NULL
) WITHOUT ROWID;
"""

# Whose files were verified: what another tenant's probe showed is not shown to others.
_V4 = """
ALTER TABLE certificates ADD COLUMN tenant TEXT;
"""

# What a tenant says of its adapters, and which are lower-rank versions of which. `changes` counts
# what was changed of a tenant's candidates.
_V5 = """
CREATE TABLE cards (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    example_prompts TEXT NOT NULL,
    PRIMARY KEY (tenant, digest),
    FOREIGN KEY (tenant, digest) REFERENCES adapters (tenant, digest) ON DELETE CASCADE
);
CREATE TABLE versions (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    version_of TEXT NOT NULL,
    PRIMARY KEY (tenant, digest),
    FOREIGN KEY (tenant, digest) REFERENCES adapters (tenant, digest) ON DELETE CASCADE,
    FOREIGN KEY (tenant, version_of) REFERENCES adapters (tenant, digest) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX versions_by_original ON versions (tenant, version_of);
CREATE TABLE changes (
    tenant TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL
) WITHOUT ROWID;
"""

# Who may use which adapter of another tenant.
_V6 = """
CREATE TABLE grants (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    owner TEXT NOT NULL,
    alias TEXT,
    generation INTEGER NOT NULL,
    granted_at REAL NOT NULL,
    PRIMARY KEY (tenant, digest),
    UNIQUE (tenant, alias),
    FOREIGN KEY (owner, digest) REFERENCES adapters (tenant, digest) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX grants_by_owner ON grants (owner, digest);
CREATE INDEX grants_by_time ON grants (tenant, granted_at DESC, digest);
"""

# Adapters of an encoder, and the classifiers among them. All before this version are a decoder's.
_V7 = """
ALTER TABLE contents ADD COLUMN task TEXT NOT NULL DEFAULT 'generate';
ALTER TABLE contents ADD COLUMN head_blob TEXT;
ALTER TABLE contents ADD COLUMN head_blob_bytes INTEGER;
ALTER TABLE contents ADD COLUMN num_labels INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contents ADD COLUMN knows_out_of_scope INTEGER NOT NULL DEFAULT 0;
CREATE INDEX contents_by_head_blob ON contents (head_blob);
CREATE TABLE labels (
    digest TEXT NOT NULL PRIMARY KEY,
    labels TEXT NOT NULL,
    FOREIGN KEY (digest) REFERENCES contents (digest) ON DELETE CASCADE
);
"""

MIGRATIONS: tuple[str, ...] = (_V1, _V2, _V3, _V4, _V5, _V6, _V7)
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
